#include "rl/agreement.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <iomanip>

#include "core/error.h"
#include "rl/exp.h"

namespace fp8rl::rl {

static bool same_bits(float a, float b) {
    return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) && !std::isnan(a);
}

// KL of the sampling side to the other, at log-ratio other - sampling.
static double kl_estimate(KlKind kind, double log_ratio) { return kl_value(kind, -log_ratio); }

AgreementCounters agreement(const TokenBatch& batch, std::span<const float> train_logp,
                            std::span<const float> rollout_logp, const Weights& weights, KlKind kind) {
    check_values(batch, "training log-prob", train_logp);
    check_values(batch, "rollout log-prob", rollout_logp);
    check(static_cast<int64_t>(weights.raw.size()) == batch.tokens() &&
              static_cast<int64_t>(weights.loss.size()) == batch.tokens(),
          "agreement: weights of another batch");
    BatchCount n = count(batch);
    AgreementCounters c;
    c.tokens = static_cast<double>(n.tokens);
    c.sequences = static_cast<double>(n.sequences);
    for (int64_t s = 0; s < batch.sequences(); ++s) {
        double error = 0, own_tokens = 0;
        for (int64_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t) {
            if (!batch.mask[t]) continue;
            const double d = double{train_logp[t]} - rollout_logp[t];
            const double distance = std::abs(d), middle = log_cosh_half(d);
            error += exp(distance);
            own_tokens += 1;
            c.gen_kl += kl_estimate(kind, d);
            c.policy_kl += kl_estimate(kind, -d);
            // p - m = d/2 - log cosh(d/2), g - m = -d/2 - log cosh(d/2)
            c.js_divergence += (exp_residue(d / 2 - middle) + exp_residue(-d / 2 - middle)) / 2;
            c.ratio_raw += weights.raw[t];
            // Without a correction the ratio stays as it is.
            c.ratio += weights.out_of_bounds[t] ? double{weights.loss[t]} : weights.raw[t];
            c.out_of_bounds += weights.out_of_bounds[t] != 0;
            c.differing += !same_bits(train_logp[t], rollout_logp[t]);
            c.max_abs = std::max(c.max_abs, distance);
        }
        if (own_tokens == 0) continue;
        c.mult_prob_error += error;
        c.sequence_error += error / own_tokens;
        c.sequence_error_min = std::min(c.sequence_error_min, error / own_tokens);
        c.sequence_error_max = std::max(c.sequence_error_max, error / own_tokens);
    }
    return c;
}

void AgreementCounters::metrics(FunctionRef<void(std::string_view, double)> put) const {
    put("mismatch/tokens", tokens);
    if (tokens == 0) return;
    put("mismatch/max_abs", max_abs);
    put("mismatch/differing_tokens", differing);
    put("token_mult_prob_error", mult_prob_error / tokens);
    put("gen_kl_error", gen_kl / tokens);
    put("policy_kl_error", policy_kl / tokens);
    put("js_divergence_error", js_divergence / tokens);
    put("sampling_importance_ratio", ratio / tokens);
    put("sampling_importance_ratio/raw", ratio_raw / tokens);
    put("is_oob_ratio", out_of_bounds / tokens);
    put("mean_seq_mult_prob_error", sequence_error / sequences);
    put("min_seq_mult_prob_error", sequence_error_min);
    put("max_seq_mult_prob_error", sequence_error_max);
}

static std::string exact(float x) {
    std::ostringstream s;
    s << std::setprecision(9) << x << " (0x" << std::hex << std::setw(8) << std::setfill('0')
      << std::bit_cast<uint32_t>(x) << ")";
    return s.str();
}

std::string Mismatch::text() const {
    return cat("sequence ", sequence, ", token ", token, ": rollout log-prob ", exact(rollout), ", training ",
               exact(train));
}

std::optional<Mismatch> first_mismatch(const TokenBatch& batch, std::span<const float> train_logp,
                                       std::span<const float> rollout_logp) {
    check(static_cast<int64_t>(batch.mask.size()) == batch.tokens() &&
              static_cast<int64_t>(train_logp.size()) == batch.tokens() &&
              static_cast<int64_t>(rollout_logp.size()) == batch.tokens(),
          "agreement: arrays of another batch");
    for (int64_t s = 0; s < batch.sequences(); ++s)
        for (int64_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t)
            if (batch.mask[t] && !same_bits(train_logp[t], rollout_logp[t]))
                return Mismatch{s, t - batch.offsets[s], rollout_logp[t], train_logp[t]};
    return std::nullopt;
}

}  // namespace fp8rl::rl
