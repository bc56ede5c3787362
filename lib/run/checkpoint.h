// run/checkpoint: a run's state on disk, whole or not at all. <run>/checkpoints/step_<n>/ holds safetensors
// files, state.json (a document of the caller), recipe.yaml, and manifest.json with every size and XXH64.
// Saving writes step_<n>.tmp-<pid>, syncs each file (the manifest last) and the folder, renames it, syncs the
// parent, and only then removes what `keep` no longer holds. So at any instant step_<n> is a whole
// checkpoint, or was damaged from outside. A failed save (full disk) throws, removes its temporary folder and
// leaves the earlier checkpoints alone; its message names the path and the bytes missing. A checkpoint counts
// only when manifest, sizes and digests agree. The files `latest` and `best` beside the folders name a step
// for people and scripts; resuming does not trust them. One process writes (RunFolder's lock).
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "io/safetensors.h"

namespace fp8rl::run {

struct NamedTensor {
    std::string name;
    Tensor tensor;  // host memory, rank 1 to 4
};

struct CheckpointData {
    struct File {
        std::string name;  // "weights.safetensors"
        std::vector<NamedTensor> tensors;
    };
    int64_t step = 0;
    std::vector<File> files;
    std::string state;   // a JSON document
    std::string recipe;  // the resolved recipe, YAML
};

// One complete checkpoint, verified when opened (all of it is read once). Refused: anything missing, cut
// short or changed, by file; a tensor that is absent or has another dtype or shape, by name.
class CheckpointReader {
  public:
    explicit CheckpointReader(const std::string& folder);
    CheckpointReader(CheckpointReader&&) noexcept;
    CheckpointReader& operator=(CheckpointReader&&) noexcept;
    ~CheckpointReader();

    int64_t step() const;
    std::optional<int64_t> best() const;  // the best step when this one was saved
    const std::string& folder() const;
    const std::string& state() const;
    const std::string& recipe() const;
    bool has_file(const std::string& file) const;
    const SafetensorsFile& file(const std::string& file) const;

    // Copies into `to`, whose dtype and shape must be the file's.
    void read(const std::string& file, const std::string& name, const Tensor& to);
    // Refuses, by name, tensors of the file that read() was never asked for.
    void require_all_read(const std::string& file) const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

class Checkpoints {
  public:
    // keep: how many of the newest stay, at least 1. The best one stays beside them.
    Checkpoints(const std::string& run_folder, int64_t keep);

    // best: this step becomes the best. Saving a step again replaces it.
    void save(const CheckpointData& data, bool best = false);

    struct Found {
        CheckpointReader reader;
        std::vector<std::string> messages;  // for the log: what was skipped, and why
    };
    // The newest complete checkpoint, in numeric order. Refused when there is none. What was skipped is
    // removed by the next successful save.
    Found find_resume();

    std::vector<int64_t> steps() const;  // of every step_<n>, ascending, complete or not
    std::string folder_of(int64_t step) const;
    // What the pointer file names, if that folder exists.
    std::optional<int64_t> best() const;

  private:
    std::optional<int64_t> pointer(const std::string& name) const;
    void write_pointer(const std::string& name, int64_t step) const;
    void write_temporary(const std::string& folder, const CheckpointData& data) const;
    void remove_old(int64_t newest) const;
    void remove_leftovers() const;

    std::string dir_;  // <run>/checkpoints
    int64_t keep_;
    std::optional<int64_t> best_;
    std::vector<int64_t> damaged_;  // skipped by find_resume
};

// For tests only. The hook is called at each point of save(): first_write, between_files, before_rename,
// after_rename, before_delete. A program started with FP8RL_TEST_PAUSE="point:milliseconds" says so on stderr
// and waits there, so that a test can kill it at that instant.
void set_checkpoint_hook(std::function<void(const std::string& point)> hook);

}  // namespace fp8rl::run
