// Every gradient of every loss against central differences of its value.
#include <cmath>

#include "core/rng.h"
#include "rl/loss.h"
#include "test.h"

using namespace fp8rl;
using namespace fp8rl::rl;

namespace {

// Log-probs are multiples of 2^-10, so that a step of 2^-10 is exact in float. With clip 0.2 and 0.28 no
// ratio lies within a step of a bound: log-ratios are multiples of 1/8 (bounds at -0.223 and 0.247, 23 and 3
// steps off).
struct Ragged {
    std::vector<int64_t> offsets = {0, 5, 5, 6, 14, 20};
    std::vector<uint8_t> mask;
    std::vector<float> logp, old_logp, reference, entropy, advantage, weight;

    Ragged() {
        Random random(7, Stream::test);
        auto eighths = [&](int low, int high) { return static_cast<float>(random.integer(low, high)) / 8; };
        for (int t = 0; t < 20; ++t) {
            mask.push_back(t != 0 && t != 9 && t != 19);
            logp.push_back(eighths(-30, -1));
            old_logp.push_back(logp[t] - eighths(-6, 6));
            reference.push_back(logp[t] - eighths(-12, 12) - 1 / 16.0f);
            entropy.push_back(eighths(0, 20));
            advantage.push_back(eighths(-12, 12));
            weight.push_back(eighths(1, 16));
        }
    }
    PolicyInput input() const {
        PolicyInput in;
        in.batch = {offsets, mask};
        in.logp = logp, in.old_logp = old_logp, in.reference_logp = reference, in.entropy = entropy;
        in.advantage = advantage, in.weight = weight;
        return in;
    }
};

template <class F>
double central_difference(float& x, F&& value) {
    const float h = 1.0f / 1024, before = x;
    x = before + h;
    double up = value();
    x = before - h;
    double down = value();
    x = before;
    return (up - down) / (2.0 * h);
}

}  // namespace

TEST_CASE("Policy loss: dL/dlogp and dL/dentropy match central differences", "[loss][gradient]") {
    int with_gradient = 0, clipped = 0;
    for (auto aggregate : {Aggregate::token_mean, Aggregate::sequence_mean, Aggregate::constant_length})
        for (auto kind : {KlKind::k1, KlKind::k2, KlKind::k3})
            for (double beta : {0.0, 0.3}) {
                Ragged x;
                LossConfig config;
                config.clip_high = 0.28;
                config.aggregate = aggregate;
                config.constant_length = 9;
                config.kl_beta = beta;
                config.kl_kind = kind;
                config.entropy = 0.07;
                BatchCount global = count({x.offsets, x.mask});
                auto value = [&] { return policy_loss(x.input(), global, config).loss; };
                Loss loss = policy_loss(x.input(), global, config);
                clipped += static_cast<int>(loss.counters.clipped_low + loss.counters.clipped_high);
                for (size_t t = 0; t < x.logp.size(); ++t) {
                    INFO("token " << t << ", beta " << beta);
                    // The second derivative of e^d at d up to 2, times h^2 / 6.
                    CHECK(std::abs(loss.dlogp[t] - central_difference(x.logp[t], value)) < 2e-6);
                    CHECK(std::abs(loss.dentropy[t] - central_difference(x.entropy[t], value)) < 1e-8);
                    with_gradient += loss.dlogp[t] != 0;
                }
            }
    CHECK(with_gradient > 100);
    CHECK(clipped > 20);
}

TEST_CASE("Supervised loss: dL/dlogp matches central differences", "[loss][gradient]") {
    for (auto aggregate : {Aggregate::token_mean, Aggregate::sequence_mean, Aggregate::constant_length}) {
        Ragged x;
        TokenBatch batch{x.offsets, x.mask};
        BatchCount global = count(batch);
        auto value = [&] { return supervised_loss(batch, x.logp, global, aggregate, 9).loss; };
        Loss loss = supervised_loss(batch, x.logp, global, aggregate, 9);
        for (size_t t = 0; t < x.logp.size(); ++t)
            CHECK(std::abs(loss.dlogp[t] - central_difference(x.logp[t], value)) < 1e-8);
    }
}

TEST_CASE("On the first update the ratio is exactly 1 and the gradient is -A times the share",
          "[loss][gradient]") {
    Ragged x;
    x.old_logp = x.logp;
    PolicyInput in = x.input();
    in.weight = {};
    in.reference_logp = {};
    in.entropy = {};
    BatchCount global = count(in.batch);
    Loss loss = policy_loss(in, global, {});
    CHECK(loss.counters.ratio_min == 1);
    CHECK(loss.counters.ratio_max == 1);
    for (size_t t = 0; t < x.logp.size(); ++t)
        CHECK(loss.dlogp[t] == (x.mask[t] ? static_cast<float>(-double{x.advantage[t]} *
                                                               (1.0 / static_cast<double>(global.tokens)))
                                          : 0.0f));
}
