// rl/agreement: how far the policy that sampled (g, rollout's log-probs) is from the policy that is trained
// (p, training's forward before the update). Estimates keep NeMo RL's names and formulas; equality is judged
// by bit patterns.
#pragma once
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "core/parallel.h"
#include "rl/correction.h"
#include "rl/loss.h"

namespace fp8rl::rl {

// Sums over the tokens that take part. Parts and ranks join with merge().
struct AgreementCounters {
    double tokens = 0, sequences = 0;
    double mult_prob_error = 0;  // exp(abs(g - p))
    double gen_kl = 0;           // KL(g || p): k3 = exp(p - g) - (p - g) - 1
    double policy_kl = 0;        // KL(p || g): k3 = exp(g - p) - (g - p) - 1
    double js_divergence = 0;    // m = log((e^p + e^g) / 2); half the k3 of p - m and of g - m
    double ratio_raw = 0;        // exp(p - g)
    double ratio = 0;            // the same after correction
    double out_of_bounds = 0;    // tokens beyond the correction's cap
    double differing = 0;        // tokens whose bits differ
    double max_abs = 0;          // of g - p
    double sequence_error = 0;   // per sequence: mean exp(abs(g - p))
    double sequence_error_min = std::numeric_limits<double>::infinity();
    double sequence_error_max = 0;

    template <class F>
    void visit(F&& f) {
        for (double* sum : {&tokens, &sequences, &mult_prob_error, &gen_kl, &policy_kl, &js_divergence,
                            &ratio_raw, &ratio, &out_of_bounds, &differing, &sequence_error})
            f(Merge::sum, *sum);
        f(Merge::min, sequence_error_min);
        for (double* most : {&max_abs, &sequence_error_max}) f(Merge::max, *most);
    }
    // Calls put(name, value): token_mult_prob_error, ..., mismatch/max_abs, mismatch/tokens (those compared).
    void metrics(FunctionRef<void(std::string_view, double)> put) const;
};

AgreementCounters agreement(const TokenBatch& batch, std::span<const float> train_logp,
                            std::span<const float> rollout_logp, const Weights& weights,
                            KlKind kind = KlKind::k3);

// The first token whose two log-probs do not have the same bits (0 and -0 differ; a NaN never agrees).
struct Mismatch {
    int64_t sequence, token;  // token counted from the sequence's offset
    float rollout, train;
    std::string text() const;  // values to the last digit and their bits
};
std::optional<Mismatch> first_mismatch(const TokenBatch& batch, std::span<const float> train_logp,
                                       std::span<const float> rollout_logp);

}  // namespace fp8rl::rl
