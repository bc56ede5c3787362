#include "rl/loss.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "rl/exp.h"

namespace fp8rl::rl {

static constexpr double max_log_ratio = 20;

double kl_value(KlKind kind, double d) {
    if (kind == KlKind::k1) return d;
    if (kind == KlKind::k2) return d * d / 2;
    return exp_residue(-d);
}

double kl_gradient(KlKind kind, double d) {
    if (kind == KlKind::k1) return 1;
    if (kind == KlKind::k2) return d;
    return 1 - exp(-d);
}

// What each token's loss of one sequence is multiplied by.
static double token_share(Aggregate aggregate, const BatchCount& global, int64_t own_tokens,
                          double constant_length) {
    switch (aggregate) {
        case Aggregate::token_mean: return 1.0 / static_cast<double>(global.tokens);
        case Aggregate::sequence_mean:
            return 1.0 / (static_cast<double>(own_tokens) * static_cast<double>(global.sequences));
        case Aggregate::constant_length:
            return 1.0 / (constant_length * static_cast<double>(global.sequences));
    }
    defect("loss: unknown aggregation");
}

// Calls body(t, share) for every token that takes part, in order.
template <class F>
static void for_each_token(const TokenBatch& batch, const BatchCount& global, Aggregate aggregate,
                           double constant_length, F&& body) {
    BatchCount part = count(batch);
    check(part.tokens <= global.tokens && part.sequences <= global.sequences, "loss: a part of ", part.tokens,
          " tokens, ", part.sequences, " sequences in a global batch of ", global.tokens, ", ",
          global.sequences);
    check(aggregate != Aggregate::constant_length || constant_length > 0, "loss: constant length ",
          constant_length);
    for (int64_t s = 0; s < batch.sequences(); ++s) {
        auto own = std::count_if(batch.mask.begin() + batch.offsets[s],
                                 batch.mask.begin() + batch.offsets[s + 1], [](uint8_t m) { return m != 0; });
        if (own == 0) continue;
        double share = token_share(aggregate, global, own, constant_length);
        for (int64_t t = batch.offsets[s]; t < batch.offsets[s + 1]; ++t)
            if (batch.mask[t]) body(t, share);
    }
}

static LossCounters counters_of(const TokenBatch& batch) {
    BatchCount n = count(batch);
    LossCounters c;
    c.tokens = static_cast<double>(n.tokens);
    c.sequences = static_cast<double>(n.sequences);
    return c;
}

// A clamped log-ratio: outside the range the value is constant, so its gradient is 0.
struct LogRatio {
    double value;
    bool clamped;
    explicit LogRatio(double d)
        : value(std::clamp(d, -max_log_ratio, max_log_ratio)), clamped(std::abs(d) > max_log_ratio) {}
};

Loss policy_loss(const PolicyInput& in, const BatchCount& global, const LossConfig& config) {
    const bool use_kl = config.kl_beta != 0, use_entropy = config.entropy != 0;
    check_values(in.batch, "log-prob", in.logp);
    check_values(in.batch, "old log-prob", in.old_logp);
    check_values(in.batch, "rollout log-prob", in.rollout_logp, true);
    check_values(in.batch, "reference log-prob", in.reference_logp, !use_kl);
    check_values(in.batch, "entropy", in.entropy, !use_entropy);
    check_values(in.batch, "advantage", in.advantage);
    check_values(in.batch, "importance weight", in.weight, true);
    check(config.clip_low >= 0 && config.clip_high >= 0, "loss: clip [", config.clip_low, ", ",
          config.clip_high, "]");

    Loss out;
    out.dlogp.assign(in.batch.tokens(), 0.0f);
    if (use_entropy) out.dentropy.assign(in.batch.tokens(), 0.0f);
    LossCounters& c = out.counters = counters_of(in.batch);
    const double low = 1 - config.clip_low, high = 1 + config.clip_high;

    for_each_token(in.batch, global, config.aggregate, config.constant_length, [&](int64_t t, double share) {
        const double logp = in.logp[t], a = in.advantage[t];
        const double weight = in.weight.empty() ? 1.0 : double{in.weight[t]};
        const LogRatio log_ratio(logp - in.old_logp[t]);
        const double r = exp(log_ratio.value), r_clamped = std::clamp(r, low, high);

        // The larger of the two losses; where the clipped one wins, the gradient is 0.
        const bool clipped = -a * r_clamped > -a * r;
        const double policy = weight * -a * (clipped ? r_clamped : r);
        double token_loss = policy;
        double gradient = clipped || log_ratio.clamped ? 0.0 : weight * -a * r;
        bool clamped = log_ratio.clamped;

        if (!in.reference_logp.empty()) {
            const LogRatio d(logp - in.reference_logp[t]);
            const double kl = kl_value(config.kl_kind, d.value);
            token_loss += config.kl_beta * kl;
            if (!d.clamped) gradient += config.kl_beta * kl_gradient(config.kl_kind, d.value);
            clamped = clamped || d.clamped;
            c.kl += kl;
            c.kl_tokens += 1;
        }
        if (use_entropy) {
            token_loss -= config.entropy * in.entropy[t];
            out.dentropy[t] = static_cast<float>(-config.entropy * share);
        }
        out.dlogp[t] = static_cast<float>(gradient * share);

        c.ratio += r;
        c.ratio_clamped += r_clamped;
        c.ratio_min = std::min(c.ratio_min, r);
        c.ratio_max = std::max(c.ratio_max, r);
        c.ratio_clamped_min = std::min(c.ratio_clamped_min, r_clamped);
        c.ratio_clamped_max = std::max(c.ratio_clamped_max, r_clamped);
        c.clipped_low += clipped && r < low;
        c.clipped_high += clipped && r > high;
        c.log_ratio_clamped += clamped;
        const double sampled = in.rollout_logp.empty() ? in.old_logp[t] : in.rollout_logp[t];
        c.approx_entropy -= exp(LogRatio(logp - sampled).value) * logp;
        if (!in.entropy.empty()) {
            c.entropy += in.entropy[t];
            c.entropy_tokens += 1;
        }
        c.nll -= logp;
        c.policy_loss += policy * share;
        c.loss += token_loss * share;
    });
    out.loss = c.loss;
    return out;
}

void LossCounters::metrics(FunctionRef<void(std::string_view, double)> put) const {
    put("loss", loss);
    put("global_valid_toks", tokens);
    put("global_valid_seqs", sequences);
    if (tokens == 0) return;
    put("nll", nll / tokens);
    if (ratio_min > ratio_max) return;  // supervised: there is no ratio
    put("policy_loss", policy_loss);
    put("probs_ratio", ratio / tokens);
    put("probs_ratio_min", ratio_min);
    put("probs_ratio_max", ratio_max);
    put("probs_ratio_clamped", ratio_clamped / tokens);
    put("probs_ratio_clamped_min", ratio_clamped_min);
    put("probs_ratio_clamped_max", ratio_clamped_max);
    put("clip_fraction/low", clipped_low / tokens);
    put("clip_fraction/high", clipped_high / tokens);
    put("log_ratio_clamped", log_ratio_clamped);
    put("approx_entropy", approx_entropy / tokens);
    if (entropy_tokens > 0) put("entropy", entropy / entropy_tokens);
    if (kl_tokens > 0) put("kl_penalty", kl / kl_tokens);
}

Loss supervised_loss(const TokenBatch& batch, std::span<const float> logp, const BatchCount& global,
                     Aggregate aggregate, double constant_length) {
    check_values(batch, "log-prob", logp);
    Loss out;
    out.dlogp.assign(batch.tokens(), 0.0f);
    LossCounters& c = out.counters = counters_of(batch);
    for_each_token(batch, global, aggregate, constant_length, [&](int64_t t, double share) {
        c.nll -= logp[t];
        c.loss -= logp[t] * share;
        out.dlogp[t] = static_cast<float>(-share);
    });
    out.loss = c.loss;
    return out;
}

}  // namespace fp8rl::rl
