// rl/batch: the shape that losses, corrections and metrics share. Tokens of all sequences lie flat, sequence
// s owning [offsets[s], offsets[s + 1]); a mask says which of them take part. A part of the global batch (a
// micro-batch, a rank's share) has the same shape; what it is divided by are counts of the whole (f05).
#pragma once
#include <cstdint>
#include <span>

namespace fp8rl::rl {

struct TokenBatch {
    std::span<const int64_t> offsets;  // [sequences + 1], from 0, not falling
    std::span<const uint8_t> mask;     // [tokens]; 1: a response token that takes part

    int64_t sequences() const { return offsets.empty() ? 0 : static_cast<int64_t>(offsets.size()) - 1; }
    int64_t tokens() const { return offsets.empty() ? 0 : offsets.back(); }
};

// What takes part: tokens with mask 1, and sequences with at least one such token. Summed over micro-batches
// and ranks this is the denominator of every mean.
struct BatchCount {
    int64_t tokens = 0;
    int64_t sequences = 0;
    BatchCount& operator+=(const BatchCount& other) {
        tokens += other.tokens;
        sequences += other.sequences;
        return *this;
    }
};

BatchCount count(const TokenBatch& batch);

// An array that goes with the batch: its length is a defect, a NaN or infinity among the tokens that take
// part is refused by sequence and token. An empty optional array passes.
void check_values(const TokenBatch& batch, const char* what, std::span<const float> values,
                  bool optional = false);

// How a counter of a part joins the counters of other parts.
enum class Merge { sum, min, max };

// Joins the fields of two counters; `visit(counters, f)` calls f(Merge, double&) on each field in a fixed
// order. The same visitor serves the reduction over ranks.
template <class Counters>
void merge(Counters& into, Counters part) {
    double* from[64];
    int n = 0;
    part.visit([&](Merge, double& x) { from[n++] = &x; });
    n = 0;
    into.visit([&](Merge how, double& x) {
        double y = *from[n++];
        if (how == Merge::sum) x += y;
        if (how == Merge::min && y < x) x = y;
        if (how == Merge::max && y > x) x = y;
    });
}

}  // namespace fp8rl::rl
