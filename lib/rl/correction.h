// rl/correction: weights that correct for a rollout policy which is not the policy that is trained.
// g is the log-prob recorded in rollout, p that of training's forward before the update. The order, fixed:
// clamp p - g to +-20, exponentiate (the raw ratio), truncate, multiply the policy term of the loss (not the
// KL, not the entropy), aggregate over the full count. No gradient flows through a weight.
#pragma once
#include <vector>

#include "rl/batch.h"

namespace fp8rl::rl {

enum class Correction { none, token_truncated };

struct CorrectionRule {
    Correction kind = Correction::none;
    double cap = 2;  // token_truncated: w = min(exp(p - g), cap) (truncated importance sampling)
};

struct Weights {
    std::vector<double> raw;             // [tokens] exp(p - g); 1 where the mask is 0
    std::vector<float> loss;             // [tokens] what multiplies the loss; all 1 for `none`
    std::vector<uint8_t> out_of_bounds;  // [tokens] 1: the ratio was above the cap (never for `none`)
};

Weights correction_weights(const TokenBatch& batch, std::span<const float> train_logp,
                           std::span<const float> rollout_logp, const CorrectionRule& rule);

}  // namespace fp8rl::rl
