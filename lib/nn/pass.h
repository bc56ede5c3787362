// nn/pass: one trip of ragged rows through the network. Rollout, training, calibration and evaluation are the
// same forward with other fields of this struct. Refuses nothing; ragged rows that do not fit together are
// defects.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "nn/kv_cache.h"

namespace fp8rl {

struct Saved;  // what backward needs, by name: nn/saved.h

struct Pass {
    Backend& backend;
    Arena& scratch;                      // op temporaries; the hidden states that forward returns lie here
    std::span<const int32_t> ids;        // [N] token ids
    std::span<const int32_t> positions;  // [N]
    std::span<const Sequence>
        sequences;             // ragged rows; page tables point into `cache`, or count from 0 in training
    KvCache* cache = nullptr;  // null: every sequence is whole (past 0), a layer's K and V live in scratch
    Saved* saved = nullptr;    // null: nothing is kept
    bool in_rollout = false;   // use the rollout precision where it differs
    bool observe = false;      // report activation and KV maxima for the next step's scales
    bool calibrate = false;    // first pass of all: scales are not known yet, use current ones and bf16 K, V
    bool replay = false;       // backward runs this forward again: nothing is reported a second time

    bool reports() const { return (observe || calibrate) && !replay; }
    int64_t rows() const { return static_cast<int64_t>(ids.size()); }
};

// Whole sequences packed for training, evaluation of log-probs, or calibration.
class PackedBatch {
  public:
    void clear();
    void add(std::span<const int32_t> tokens);  // one sequence from position 0
    int64_t rows() const { return static_cast<int64_t>(ids.size()); }
    int64_t pages() const { return pages_; }  // pages of a throw-away cache of one layer
    // Sequences with page tables that count from 0; valid until the next add or clear.
    std::span<const Sequence> sequences();

    std::vector<int32_t> ids, positions;

  private:
    struct Span {
        int32_t row, rows, first_page;
    };
    std::vector<Span> spans_;
    std::vector<int32_t> page_table_;
    std::vector<Sequence> sequences_;
    int64_t pages_ = 0;
};

}  // namespace fp8rl
