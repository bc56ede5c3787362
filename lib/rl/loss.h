// rl/loss: every objective as a pure function over flat arrays, giving the loss, its gradient with respect to
// log-probs and entropies, and counters. Sums run in double, token after token. A part of the global batch
// returns its share: shares add up to the loss of the whole, however it is cut (f05). A value that is not
// finite is refused by sequence and token.
#pragma once
#include <limits>
#include <string_view>
#include <vector>

#include "core/parallel.h"
#include "rl/batch.h"

namespace fp8rl::rl {

// How token losses become one number. With T tokens and S sequences that take part in the GLOBAL batch:
enum class Aggregate {
    token_mean,       // sum / T
    sequence_mean,    // sum over sequences of (sum / own tokens) / S
    constant_length,  // sum / (S * constant_length), Dr.GRPO
};

// Estimators of KL(now || reference) at d = logp - reference (Schulman, "Approximating KL divergence"):
enum class KlKind {
    k1,  // d
    k2,  // d^2 / 2
    k3,  // e^-d + d - 1
};
double kl_value(KlKind kind, double d);
double kl_gradient(KlKind kind, double d);  // by d

struct LossConfig {
    double clip_low = 0.2, clip_high = 0.2;  // the ratio is clipped to [1 - low, 1 + high]
    Aggregate aggregate = Aggregate::token_mean;
    double constant_length = 0;  // tokens; only for Aggregate::constant_length, usually max_new_tokens
    double kl_beta = 0;
    KlKind kl_kind = KlKind::k3;
    double entropy = 0;  // coefficient of the bonus
};

// All arrays are [tokens of the batch]; those marked optional may be empty.
struct PolicyInput {
    TokenBatch batch;
    std::span<const float> logp;            // now
    std::span<const float> old_logp;        // before the first update of the step
    std::span<const float> rollout_logp;    // optional (then old_logp): as sampled, for approx_entropy
    std::span<const float> reference_logp;  // needed when kl_beta > 0
    std::span<const float> entropy;         // needed when the coefficient is not 0
    std::span<const float> advantage;       // per token
    std::span<const float> weight;          // optional (then 1): importance correction
};

// Sums over the tokens that take part; counts are exact in double. Parts and ranks join with merge().
struct LossCounters {
    double tokens = 0, sequences = 0;
    double ratio = 0, ratio_clamped = 0;  // exp(logp - old), clipped to the bounds
    double ratio_min = std::numeric_limits<double>::infinity();
    double ratio_max = -std::numeric_limits<double>::infinity();
    double ratio_clamped_min = std::numeric_limits<double>::infinity();
    double ratio_clamped_max = -std::numeric_limits<double>::infinity();
    double clipped_low = 0, clipped_high = 0;  // tokens whose gradient the clip removed, by bound
    double log_ratio_clamped = 0;              // tokens whose log-ratio (to old or reference) left +-20
    double approx_entropy = 0;                 // -exp(logp - rollout) * logp
    double entropy = 0, entropy_tokens = 0;    // exact, where given
    double kl = 0, kl_tokens = 0;              // without beta, where there is a reference
    double nll = 0;                            // -logp
    double policy_loss = 0;                    // share of the loss: policy term alone
    double loss = 0;                           // share of the loss: all terms

    template <class F>
    void visit(F&& f) {
        for (double* sum :
             {&tokens, &sequences, &ratio, &ratio_clamped, &clipped_low, &clipped_high, &log_ratio_clamped,
              &approx_entropy, &entropy, &entropy_tokens, &kl, &kl_tokens, &nll, &policy_loss, &loss})
            f(Merge::sum, *sum);
        for (double* least : {&ratio_min, &ratio_clamped_min}) f(Merge::min, *least);
        for (double* most : {&ratio_max, &ratio_clamped_max}) f(Merge::max, *most);
    }
    // Calls put(name, value) with NeMo RL's names, means over the tokens. Nothing when no token took part.
    void metrics(FunctionRef<void(std::string_view, double)> put) const;
};

struct Loss {
    double loss = 0;              // this part's share of the global loss
    std::vector<float> dlogp;     // [tokens] dL/dlogp; 0 where the mask is 0
    std::vector<float> dentropy;  // [tokens] dL/dentropy; empty when the coefficient is 0
    LossCounters counters;
};

// PPO's clipped objective with per-token advantages (GRPO), to be minimised:
//   max(-A r, -A clip(r, 1 - low, 1 + high)) * weight + beta * KL - c * H,   r = exp(logp - old_logp).
// Log-ratios are clamped to +-20 before exp; a clamped token has no gradient through that term and is
// counted.
Loss policy_loss(const PolicyInput& input, const BatchCount& global, const LossConfig& config);

// Supervised: -logp, aggregated likewise.
Loss supervised_loss(const TokenBatch& batch, std::span<const float> logp, const BatchCount& global,
                     Aggregate aggregate, double constant_length = 0);

}  // namespace fp8rl::rl
