// Losses worked by hand, f05 (any partition of the batch, two ranks), counters and refusals.
#include "rl/loss.h"

#include <cmath>
#include <map>

#include "refused.h"

using namespace fp8rl;
using namespace fp8rl::rl;
using test::refusal;
using test::says;

namespace {

const float ln2 = 0.6931472f, ln1_5 = 0.4054651f;

// Two sequences of two tokens; the last token is masked. Ratios 1, 1.5, 1.5; advantages 2, 2, -1.
struct Example {
    std::vector<int64_t> offsets = {0, 2, 4};
    std::vector<uint8_t> mask = {1, 1, 1, 0};
    std::vector<float> old_logp = {-1, -2, -3, -1};
    std::vector<float> logp = {-1, -2 + ln1_5, -3 + ln1_5, -0.5};
    std::vector<float> advantage = {2, 2, -1, -1};

    PolicyInput input() const {
        PolicyInput in;
        in.batch = {offsets, mask};
        in.logp = logp;
        in.old_logp = old_logp;
        in.advantage = advantage;
        return in;
    }
    BatchCount global() const { return count({offsets, mask}); }
};

std::map<std::string, double> metrics_of(const LossCounters& c) {
    std::map<std::string, double> m;
    c.metrics([&](std::string_view name, double value) { m[std::string(name)] = value; });
    return m;
}

}  // namespace

TEST_CASE("The clipped objective, worked by hand, under each aggregation", "[loss]") {
    // Token losses: -2*1 = -2; max(-2*1.5, -2*1.2) = -2.4, clipped; max(1*1.5, 1*1.2) = 1.5, not clipped.
    // Gradients -A r where not clipped: -2, 0, 1.5.
    Example x;
    LossConfig config;

    Loss token = policy_loss(x.input(), x.global(), config);
    CHECK(token.loss == Approx((-2 - 2.4 + 1.5) / 3).epsilon(1e-6));
    CHECK(token.dlogp[0] == Approx(-2.0 / 3));
    CHECK(token.dlogp[1] == 0.0f);
    CHECK(token.dlogp[2] == Approx(0.5).epsilon(1e-6));
    CHECK(token.dlogp[3] == 0.0f);
    CHECK(token.dentropy.empty());

    // Sequence means -2.2 and 1.5, averaged.
    config.aggregate = Aggregate::sequence_mean;
    Loss sequence = policy_loss(x.input(), x.global(), config);
    CHECK(sequence.loss == Approx(-0.35).epsilon(1e-5));
    CHECK(sequence.dlogp[0] == Approx(-0.5));
    CHECK(sequence.dlogp[2] == Approx(0.75).epsilon(1e-6));

    // Sum -2.9 over 2 sequences of constant length 10.
    config.aggregate = Aggregate::constant_length;
    config.constant_length = 10;
    Loss constant = policy_loss(x.input(), x.global(), config);
    CHECK(constant.loss == Approx(-0.145).epsilon(1e-5));
    CHECK(constant.dlogp[0] == Approx(-0.1));
}

TEST_CASE("Each side of the clip: only the side that would go on gaining is cut", "[loss]") {
    struct Case {
        float log_ratio, advantage;
        double loss, gradient;
        bool low, high;
    };
    for (const Case& c : {
             Case{ln2, 1, -1.28, 0, false, true},      // r = 2 against 1.28
             Case{ln2, -1, 2, 2, false, false},        // pushed back without limit
             Case{-ln2, 1, -0.5, -0.5, false, false},  // r = 0.5, pulled back up
             Case{-ln2, -1, 0.8, 0, true, false},      // r = 0.5 against 0.8
             Case{ln2, 0, 0, 0, false, false},
         }) {
        std::vector<int64_t> offsets = {0, 1};
        std::vector<uint8_t> mask = {1};
        std::vector<float> old_logp = {-2}, logp = {-2 + c.log_ratio}, advantage = {c.advantage};
        PolicyInput in;
        in.batch = {offsets, mask};
        in.logp = logp, in.old_logp = old_logp, in.advantage = advantage;
        LossConfig config;
        config.clip_high = 0.28;
        Loss loss = policy_loss(in, {1, 1}, config);
        INFO("log-ratio " << c.log_ratio << ", advantage " << c.advantage);
        CHECK(loss.loss == Approx(c.loss).epsilon(1e-6));
        CHECK(loss.dlogp[0] == Approx(c.gradient).epsilon(1e-6));
        CHECK(loss.counters.clipped_low == c.low);
        CHECK(loss.counters.clipped_high == c.high);
    }
}

TEST_CASE("KL estimators at log-ratio ln 2 and -ln 2", "[loss][kl]") {
    // k1 = d, k2 = d^2/2 = 0.2402265; k3 = e^-d + d - 1: 0.5 + 0.6931472 - 1 and 2 - 0.6931472 - 1.
    const double d = std::log(2.0);
    CHECK(kl_value(KlKind::k1, d) == Approx(0.6931472));
    CHECK(kl_value(KlKind::k2, d) == Approx(0.2402265));
    CHECK(kl_value(KlKind::k3, d) == Approx(0.1931472));
    CHECK(kl_value(KlKind::k3, -d) == Approx(0.3068528));
    // By d: 1, d, 1 - e^-d.
    CHECK(kl_gradient(KlKind::k1, d) == 1);
    CHECK(kl_gradient(KlKind::k2, d) == Approx(0.6931472));
    CHECK(kl_gradient(KlKind::k3, d) == Approx(0.5));
    CHECK(kl_gradient(KlKind::k3, -d) == Approx(-1.0));
}

TEST_CASE("KL, entropy bonus and importance weight enter the loss as written", "[loss]") {
    // Token 0: weight 0.5, policy term 0.5 * -2 = -1; k3 at d = ln 2 is 0.1931472, beta 0.1; entropy 1.5 at
    // 0.01. Loss -1 + 0.01931472 - 0.015 = -0.99568528; gradient 0.5 * -2 + 0.1 * 0.5 = -0.95; dentropy
    // -0.01.
    std::vector<int64_t> offsets = {0, 1};
    std::vector<uint8_t> mask = {1};
    std::vector<float> logp = {-1}, reference = {-1 - ln2}, entropy = {1.5f}, advantage = {2},
                       weight = {0.5f};
    PolicyInput in;
    in.batch = {offsets, mask};
    in.logp = logp, in.old_logp = logp, in.reference_logp = reference, in.entropy = entropy;
    in.advantage = advantage, in.weight = weight;
    LossConfig config;
    config.kl_beta = 0.1;
    config.entropy = 0.01;
    Loss loss = policy_loss(in, {1, 1}, config);
    CHECK(loss.loss == Approx(-0.99568528).epsilon(1e-6));
    CHECK(loss.dlogp[0] == Approx(-0.95).epsilon(1e-6));
    CHECK(loss.dentropy[0] == Approx(-0.01));
    auto m = metrics_of(loss.counters);
    CHECK(m["kl_penalty"] == Approx(0.1931472).epsilon(1e-6));  // without beta
    CHECK(m["entropy"] == Approx(1.5));
    CHECK(m["policy_loss"] == Approx(-1.0));
}

TEST_CASE("Counters of the worked example carry NeMo RL's names", "[loss]") {
    Example x;
    auto m = metrics_of(policy_loss(x.input(), x.global(), {}).counters);
    CHECK(m["probs_ratio"] == Approx((1 + 1.5 + 1.5) / 3).epsilon(1e-6));
    CHECK(m["probs_ratio_clamped"] == Approx((1 + 1.2 + 1.2) / 3).epsilon(1e-6));
    CHECK(m["probs_ratio_min"] == 1);
    CHECK(m["probs_ratio_max"] == Approx(1.5).epsilon(1e-6));
    CHECK(m["probs_ratio_clamped_max"] == Approx(1.2));
    CHECK(m["clip_fraction/high"] == Approx(1.0 / 3));
    CHECK(m["clip_fraction/low"] == 0);
    // -mean exp(c - g) c with g the old log-probs: (1*1 + 1.5*1.5945349 + 1.5*2.5945349) / 3
    CHECK(m["approx_entropy"] == Approx(2.4278682).epsilon(1e-6));
    CHECK(m["nll"] == Approx((1 + 1.5945349 + 2.5945349) / 3).epsilon(1e-6));
    CHECK(m["global_valid_toks"] == 3);
    CHECK(m["global_valid_seqs"] == 2);
    CHECK(m.count("kl_penalty") == 0);
    CHECK(m.count("entropy") == 0);
}

TEST_CASE("f05: loss and gradient do not depend on how the batch is cut", "[loss][f05]") {
    auto file = test::read_json("f05_micro_batches.json");
    std::map<std::string, std::vector<double>> losses = file["input"]["per_token_loss"];
    double tolerance = file["expect"]["rel_tol"];

    // d(loss)/dw for loss_t = w x_t is the sum of dL/dlogp_t * dlogp_t/dw with logp_t = -w x_t.
    struct Sum {
        double loss = 0, gradient = 0;
        LossCounters counters;
    };
    auto part = [&](const std::vector<std::string>& names, BatchCount global, Aggregate aggregate, Sum& sum) {
        std::vector<int64_t> offsets = {0};
        std::vector<float> logp;
        for (const auto& name : names) {
            for (double x : losses[name]) logp.push_back(static_cast<float>(-x));
            offsets.push_back(static_cast<int64_t>(logp.size()));
        }
        std::vector<uint8_t> mask(logp.size(), 1);
        TokenBatch batch{offsets, mask};
        Loss l = supervised_loss(batch, logp, global, aggregate, 6);
        sum.loss += l.loss;
        for (size_t t = 0; t < logp.size(); ++t) sum.gradient += double{l.dlogp[t]} * logp[t];
        merge(sum.counters, l.counters);
    };

    struct Expected {
        Aggregate aggregate;
        double value;
    };
    // Constant length 6: 21.5 / (4 * 6).
    for (auto [aggregate, expected] :
         {Expected{Aggregate::token_mean, file["expect"]["token_mean_loss_any_partition"]},
          Expected{Aggregate::sequence_mean, file["expect"]["sequence_mean_loss_any_partition"]},
          Expected{Aggregate::constant_length, 21.5 / 24}}) {
        for (std::vector<std::vector<std::string>> partition : file["input"]["partitions"]) {
            Sum sum;
            for (const auto& names : partition) part(names, {12, 4}, aggregate, sum);
            CHECK(sum.loss == Approx(expected).epsilon(tolerance));
            CHECK(sum.gradient == Approx(expected).epsilon(tolerance));
            CHECK(metrics_of(sum.counters)["loss"] == Approx(expected).epsilon(tolerance));
            CHECK(sum.counters.tokens == 12);
        }
        // Two ranks: counts are reduced first, then each computes its share, then shares and counters are
        // summed.
        Sum ranks[2];
        std::map<std::string, std::vector<std::string>> split = file["input"]["two_ranks"];
        part(split["rank0"], {12, 4}, aggregate, ranks[0]);
        part(split["rank1"], {12, 4}, aggregate, ranks[1]);
        merge(ranks[0].counters, ranks[1].counters);
        CHECK(ranks[0].loss + ranks[1].loss == Approx(expected).epsilon(tolerance));
        CHECK(ranks[0].gradient + ranks[1].gradient == Approx(expected).epsilon(tolerance));
        CHECK(metrics_of(ranks[0].counters)["loss"] == Approx(expected).epsilon(tolerance));
    }
}

TEST_CASE("Fully masked sequences do not count in sequence means", "[loss]") {
    std::vector<int64_t> offsets = {0, 1, 3, 3};
    std::vector<uint8_t> mask = {1, 0, 0};
    std::vector<float> logp = {-3, -100, -100};
    BatchCount n = count({offsets, mask});
    CHECK(n.tokens == 1);
    CHECK(n.sequences == 1);
    Loss loss = supervised_loss({offsets, mask}, logp, n, Aggregate::sequence_mean);
    CHECK(loss.loss == 3);
    CHECK(loss.dlogp == std::vector<float>{-1, 0, 0});
}

TEST_CASE("A batch in which nothing takes part has loss and gradient zero", "[loss]") {
    std::vector<int64_t> offsets = {0, 2};
    std::vector<uint8_t> mask = {0, 0};
    std::vector<float> values = {-1, -1};
    PolicyInput in;
    in.batch = {offsets, mask};
    in.logp = values, in.old_logp = values, in.advantage = values;
    Loss loss = policy_loss(in, {0, 0}, {});
    CHECK(loss.loss == 0);
    CHECK(loss.dlogp == std::vector<float>{0, 0});
    CHECK(metrics_of(loss.counters).size() == 3);  // loss and the two counts, no mean over nothing
    CHECK(supervised_loss({}, {}, {0, 0}, Aggregate::token_mean).loss == 0);
}

TEST_CASE("Log-ratios are clamped at 20 and counted", "[loss]") {
    std::vector<int64_t> offsets = {0, 2};
    std::vector<uint8_t> mask = {1, 1};
    std::vector<float> logp = {-1, -1}, old_logp = {-31, -1}, advantage = {-1, 1};
    PolicyInput in;
    in.batch = {offsets, mask};
    in.logp = logp, in.old_logp = old_logp, in.advantage = advantage;
    Loss loss = policy_loss(in, {2, 1}, {});
    CHECK(loss.counters.log_ratio_clamped == 1);
    CHECK(loss.counters.ratio_max == Approx(485165195.4097903));  // e^20
    CHECK(loss.dlogp[0] == 0.0f);
    CHECK(loss.dlogp[1] == Approx(-0.5));
}

TEST_CASE("A value that is not finite is refused by name, sequence and token; masked ones are not read",
          "[loss]") {
    Example x;
    x.logp[3] = std::nanf("");  // masked
    CHECK_NOTHROW(policy_loss(x.input(), x.global(), {}));
    x.logp[1] = std::nanf("");
    CHECK(says(refusal([&] { policy_loss(x.input(), x.global(), {}); }), "log-prob of sequence 0, token 1"));
    x.logp[1] = -2;
    x.old_logp[2] = -INFINITY;
    CHECK(says(refusal([&] { policy_loss(x.input(), x.global(), {}); }),
               "old log-prob of sequence 1, token 0"));
    x.old_logp[2] = -3;
    x.advantage[0] = INFINITY;
    CHECK(says(refusal([&] { policy_loss(x.input(), x.global(), {}); }), "advantage of sequence 0, token 0"));
}

TEST_CASE("Arrays that do not fit together are defects", "[loss]") {
    Example x;
    x.advantage.pop_back();
    CHECK_THROWS_AS(policy_loss(x.input(), x.global(), {}), Error);
    Example y;
    LossConfig with_kl;
    with_kl.kl_beta = 0.1;
    CHECK_THROWS_AS(policy_loss(y.input(), y.global(), with_kl), Error);   // no reference
    CHECK_THROWS_AS(policy_loss(y.input(), BatchCount{2, 2}, {}), Error);  // more tokens than the whole batch
}
