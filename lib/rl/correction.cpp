#include "rl/correction.h"

#include <algorithm>

#include "core/error.h"
#include "rl/exp.h"

namespace fp8rl::rl {

Weights correction_weights(const TokenBatch& batch, std::span<const float> train_logp,
                           std::span<const float> rollout_logp, const CorrectionRule& rule) {
    check_values(batch, "training log-prob", train_logp);
    check_values(batch, "rollout log-prob", rollout_logp);
    check(rule.kind == Correction::none || rule.cap > 0, "correction: cap ", rule.cap);
    Weights w;
    w.raw.assign(batch.tokens(), 1.0);
    w.loss.assign(batch.tokens(), 1.0f);
    w.out_of_bounds.assign(batch.tokens(), 0);
    for (int64_t t = 0; t < batch.tokens(); ++t) {
        if (!batch.mask[t]) continue;
        double ratio = exp(std::clamp(double{train_logp[t]} - rollout_logp[t], -20.0, 20.0));
        w.raw[t] = ratio;
        if (rule.kind == Correction::none) continue;
        w.loss[t] = static_cast<float>(std::min(ratio, rule.cap));
        w.out_of_bounds[t] = ratio > rule.cap;
    }
    return w;
}

}  // namespace fp8rl::rl
