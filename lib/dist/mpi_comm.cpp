// dist/mpi_comm: Comm over MPI (dist/no_mpi.cpp is its counterpart where MPI was not found).
// A reduction cuts the values in pieces, and a piece in one slice per rank: each rank receives everyone's
// copy of its slice, combines them in rank order, and hands the result to all. So the order is fixed
// (MPI_SUM's is not), each value crosses the wire about twice, and the extra memory is bounded.
#ifdef FP8RL_HAVE_MPI
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <limits>

#include "core/error.h"
#include "dist/comm.h"

namespace fp8rl::dist {
namespace {

constexpr size_t piece_values = size_t{1} << 20;
constexpr size_t piece_bytes = size_t{1} << 28;

float larger(float a, float b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<float>::quiet_NaN();
    return std::max(a, b);
}

class MpiComm final : public Comm {
  public:
    explicit MpiComm(const Placement& p) {
        int initialized = 0;
        MPI_Initialized(&initialized);
        check(!initialized, "comm: MPI is already initialized");
        int provided = 0;
        if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS)
            device_failed("mpi: rank ", p.rank, ": MPI_Init failed");
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
        MPI_Comm_size(MPI_COMM_WORLD, &world_);
        if (rank_ != p.rank || world_ != p.world) {
            int rank = rank_, world = world_;
            MPI_Finalize();
            refuse("launch: ", p.launcher, " says rank ", p.rank, " of ", p.world, ", MPI says rank ", rank,
                   " of ", world, "; start with the launcher of the MPI this program was built with",
                   p.launcher == "srun" ? " (srun --mpi=pmix)" : "");
        }
    }

    // While an error unwinds, peers may wait in a collective and MPI_Finalize would wait for them for ever:
    // leaving without it lets the launcher end the job.
    ~MpiComm() override {
        if (std::uncaught_exceptions() == 0) MPI_Finalize();
    }

    int rank() const override { return rank_; }
    int world() const override { return world_; }

    void barrier() override { must(MPI_Barrier(MPI_COMM_WORLD), "barrier"); }

    void all_reduce_sum(std::span<float> v) override {
        reduce(v, MPI_FLOAT, [](float a, float b) { return a + b; });
    }
    void all_reduce_sum(std::span<double> v) override {
        reduce(v, MPI_DOUBLE, [](double a, double b) { return a + b; });
    }
    void all_reduce_max(std::span<float> v) override { reduce(v, MPI_FLOAT, larger); }

    void broadcast(std::span<std::byte> bytes, int root) override {
        check(root >= 0 && root < world_, "comm: broadcast from rank ", root, " of a world of ", world_);
        for (size_t at = 0; at < bytes.size(); at += piece_bytes) {
            int n = static_cast<int>(std::min(piece_bytes, bytes.size() - at));
            must(MPI_Bcast(bytes.data() + at, n, MPI_BYTE, root, MPI_COMM_WORLD), "broadcast");
        }
    }

    std::vector<std::string> all_gather(const std::string& text) override {
        check(text.size() <= piece_bytes, "comm: a text of ", text.size(), " bytes");
        int mine = static_cast<int>(text.size());
        std::vector<int> sizes(world_), offsets(world_);
        must(MPI_Allgather(&mine, 1, MPI_INT, sizes.data(), 1, MPI_INT, MPI_COMM_WORLD), "gather");
        long long total = 0;
        for (int r = 0; r < world_; ++r) {
            offsets[r] = static_cast<int>(total);
            total += sizes[r];
            check(total <= std::numeric_limits<int>::max(), "comm: texts of ", total, " bytes together");
        }
        std::string all(static_cast<size_t>(total), '\0');
        must(MPI_Allgatherv(text.data(), mine, MPI_CHAR, all.data(), sizes.data(), offsets.data(), MPI_CHAR,
                            MPI_COMM_WORLD),
             "gather");
        std::vector<std::string> out;
        for (int r = 0; r < world_; ++r) out.push_back(all.substr(offsets[r], sizes[r]));
        return out;
    }

  private:
    void must(int code, const char* what) const {
        if (code == MPI_SUCCESS) return;
        char text[MPI_MAX_ERROR_STRING + 1] = {};
        int length = 0;
        MPI_Error_string(code, text, &length);
        device_failed("mpi: rank ", rank_, " of ", world_, ": ", what, " failed: ", text);
    }

    template <class T, class Combine>
    void reduce(std::span<T> values, MPI_Datatype type, Combine combine) {
        std::vector<T> copies;
        std::vector<int> send(world_), send_at(world_), receive(world_), receive_at(world_);
        for (size_t at = 0; at < values.size(); at += piece_values) {
            std::span<T> piece = values.subspan(at, std::min(piece_values, values.size() - at));
            for (int r = 0; r < world_; ++r) {
                size_t begin = piece.size() * r / world_, end = piece.size() * (r + 1) / world_;
                send[r] = static_cast<int>(end - begin);
                send_at[r] = static_cast<int>(begin);
            }
            int mine = send[rank_];
            for (int r = 0; r < world_; ++r) receive[r] = mine, receive_at[r] = mine * r;
            copies.resize(static_cast<size_t>(mine) * world_ + 1);
            must(MPI_Alltoallv(piece.data(), send.data(), send_at.data(), type, copies.data(), receive.data(),
                               receive_at.data(), type, MPI_COMM_WORLD),
                 "all-reduce");
            for (int r = 1; r < world_; ++r)
                for (int i = 0; i < mine; ++i)
                    copies[i] = combine(copies[i], copies[static_cast<size_t>(r) * mine + i]);
            must(MPI_Allgatherv(copies.data(), mine, type, piece.data(), send.data(), send_at.data(), type,
                                MPI_COMM_WORLD),
                 "all-reduce");
        }
    }

    int rank_ = 0;
    int world_ = 1;
};

}  // namespace

bool have_mpi() { return true; }

std::unique_ptr<Comm> make_comm(const Placement& p) {
    if (p.world == 1) return std::make_unique<LocalComm>();
    return std::make_unique<MpiComm>(p);
}

}  // namespace fp8rl::dist
#endif
