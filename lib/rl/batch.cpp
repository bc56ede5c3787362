#include "rl/batch.h"

#include <cmath>

#include "core/error.h"

namespace fp8rl::rl {

BatchCount count(const TokenBatch& batch) {
    check(static_cast<int64_t>(batch.mask.size()) == batch.tokens(), "batch: mask of ", batch.mask.size(),
          " for ", batch.tokens(), " tokens");
    BatchCount n;
    for (int64_t s = 0; s < batch.sequences(); ++s) {
        check(batch.offsets[s] <= batch.offsets[s + 1], "batch: offsets fall at sequence ", s);
        int64_t before = n.tokens;
        for (int64_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t) n.tokens += batch.mask[t] != 0;
        n.sequences += n.tokens > before;
    }
    return n;
}

void check_values(const TokenBatch& batch, const char* what, std::span<const float> values, bool optional) {
    if (optional && values.empty()) return;
    check(static_cast<int64_t>(values.size()) == batch.tokens(), "batch: ", what, " of ", values.size(),
          " for ", batch.tokens(), " tokens");
    for (int64_t s = 0; s < batch.sequences(); ++s)
        for (int64_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t)
            if (batch.mask[t] && !std::isfinite(values[t]))
                refuse(what, " of sequence ", s, ", token ", t - batch.offsets[s], " is ", values[t],
                       "; finite values only");
}

}  // namespace fp8rl::rl
