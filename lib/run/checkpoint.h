// run/checkpoint: a run's state on disk, whole or not at all. <run>/checkpoints/step_<n>/ holds safetensors
// files, state.json (a document of the caller), recipe.yaml and manifest.json with every size and XXH64.
// Saving writes step_<n>.tmp-<pid>, syncs each file, the manifest last, then the folder; renames it; syncs
// the parent; and only then removes what `keep` no longer holds. So at any instant each step_<n> is either a
// whole checkpoint or was damaged by others. A failed save (disk full) throws, removes its temporary folder
// and leaves the earlier checkpoints alone. A checkpoint counts only when manifest, sizes and digests agree.
// Files `latest` and `best` beside the folders name a step for people and scripts; resuming never trusts
// them.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor.h"

namespace fp8rl::run {

struct NamedTensor {
    std::string name;
    Tensor tensor;
};

struct CheckpointData {
    int64_t step = 0;
    struct File {
        std::string name;  // "weights.safetensors"
        std::vector<NamedTensor> tensors;
    };
    std::vector<File> files;
    std::string state;   // a JSON document
    std::string recipe;  // the resolved recipe, YAML
};

// One complete checkpoint, verified when opened (all of it is read once). Refused: anything missing, cut
// short or changed; a tensor that is absent or has another dtype or shape.
class CheckpointReader {
  public:
    explicit CheckpointReader(const std::string& folder);
    CheckpointReader(CheckpointReader&&) noexcept;
    CheckpointReader& operator=(CheckpointReader&&) noexcept;
    ~CheckpointReader();

    int64_t step() const;
    const std::string& folder() const;
    const std::string& state() const;
    const std::string& recipe() const;
    std::vector<std::string> files() const;                         // the safetensors files
    std::vector<std::string> names(const std::string& file) const;  // the tensors of one
    bool has(const std::string& file, const std::string& name) const;
    // A view of the mapped file, not necessarily aligned.
    Tensor view(const std::string& file, const std::string& name) const;
    // Copies into `to`, whose dtype and shape must be the file's.
    void read(const std::string& file, const std::string& name, const Tensor& to) const;

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
        int64_t step;
        std::string folder;
        std::vector<std::string> messages;  // what was skipped, and why
    };
    // The newest complete checkpoint, in numeric order. Refused when there is none. Those skipped are removed
    // by the next successful save.
    Found find_resume();

    std::vector<int64_t> steps() const;   // every step_<n>, ascending, complete or not
    std::optional<int64_t> best() const;  // what the pointer names, if that folder exists
    std::string folder_of(int64_t step) const;

  private:
    void write_pointer(const std::string& name, int64_t step);
    std::optional<int64_t> read_pointer(const std::string& name) const;
    void remove_old(int64_t newest);

    std::string dir_;  // <run>/checkpoints
    int64_t keep_;
    std::vector<int64_t> damaged_;  // skipped by find_resume
};

// For tests only: called with the name of each point of save(): first_write, between_files, before_rename,
// after_rename, before_delete. The environment variable FP8RL_TEST_PAUSE="point:milliseconds" makes a program
// wait there, and say so on stderr, so that a test can kill it at that instant.
void set_checkpoint_hook(std::function<void(const std::string& point)> hook);

}  // namespace fp8rl::run
