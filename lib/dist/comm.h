// dist/comm: what a run needs from its peers, and nothing else. LocalComm is a world of one; MpiComm
// (make_comm) speaks MPI and is linked only where MPI was found, its stub refuses by name.
// Reductions are deterministic: values are gathered and combined in rank order 0, 1, ..., so the result
// depends on the world size but never on timing, and it has the same bits on every rank. A failed peer or
// transport throws a device fault (exit code 4) that names the rank and the operation.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dist/launch.h"

namespace fp8rl::dist {

// Every call is collective: all ranks make it, in the same order, with the same sizes.
class Comm {
  public:
    virtual ~Comm() = default;
    virtual int rank() const = 0;
    virtual int world() const = 0;
    virtual void barrier() = 0;
    // In place, elementwise, in the element's own precision: ((x0 + x1) + x2) + ...
    virtual void all_reduce_sum(std::span<float> values) = 0;
    virtual void all_reduce_sum(std::span<double> values) = 0;
    // In place; a NaN on any rank is a NaN on all.
    virtual void all_reduce_max(std::span<float> values) = 0;
    // root's bytes replace everyone's.
    virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
    // Every rank's text, in rank order, on every rank. Lengths may differ.
    virtual std::vector<std::string> all_gather(const std::string& text) = 0;
};

class LocalComm final : public Comm {
  public:
    int rank() const override { return 0; }
    int world() const override { return 1; }
    void barrier() override {}
    void all_reduce_sum(std::span<float>) override {}
    void all_reduce_sum(std::span<double>) override {}
    void all_reduce_max(std::span<float>) override {}
    void broadcast(std::span<std::byte> bytes, int root) override;
    std::vector<std::string> all_gather(const std::string& text) override { return {text}; }
};

// Whether this program was linked with MPI.
bool have_mpi();

// A world of one is local and never touches MPI (MPI_Init outside a launcher can hang or abort). A larger one
// initializes MPI, at most once per process, and refuses when MPI counts other ranks than the launcher's
// variables do (another MPI than the launcher's: every process would believe it is alone).
std::unique_ptr<Comm> make_comm(const Placement& placement);

// Refuses, on all ranks, when two ranks hold the same device. `device` must name it beyond this process: a
// GPU's UUID; "" for a CPU. An environment alone cannot tell one GPU per task from one GPU for all.
void refuse_shared_devices(Comm& comm, const std::string& device);

}  // namespace fp8rl::dist
