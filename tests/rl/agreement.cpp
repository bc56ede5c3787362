// Importance correction, the mismatch metrics by their formulas, and bitwise comparison.
#include "rl/agreement.h"

#include <cmath>
#include <map>

#include "refused.h"

using namespace fp8rl;
using namespace fp8rl::rl;
using test::says;

namespace {

std::map<std::string, double> metrics_of(const AgreementCounters& c) {
    std::map<std::string, double> m;
    c.metrics([&](std::string_view name, double value) { m[std::string(name)] = value; });
    return m;
}

const float log_half = std::log(0.5f), log_quarter = std::log(0.25f);

}  // namespace

TEST_CASE("Truncated importance weights are min(exp(p - g), cap); raw ratios are kept", "[correction]") {
    // Ratios 2, 1/2 and 4 (cap 3): weights 2, 0.5, 3; the masked token keeps weight 1.
    std::vector<int64_t> offsets = {0, 4};
    std::vector<uint8_t> mask = {1, 1, 1, 0};
    std::vector<float> p = {log_half, log_quarter, log_quarter, -1},
                       g = {log_quarter, log_half, 2 * log_quarter, -9};
    Weights w = correction_weights({offsets, mask}, p, g, {Correction::token_truncated, 3});
    CHECK(w.raw[0] == Approx(2));
    CHECK(w.raw[1] == Approx(0.5));
    CHECK(w.raw[2] == Approx(4));
    CHECK(w.loss[0] == Approx(2));
    CHECK(w.loss[1] == Approx(0.5));
    CHECK(w.loss[2] == 3.0f);
    CHECK(w.loss[3] == 1.0f);
    CHECK(w.out_of_bounds == std::vector<uint8_t>{0, 0, 1, 0});

    Weights none = correction_weights({offsets, mask}, p, g, {});
    CHECK(none.loss == std::vector<float>{1, 1, 1, 1});
    CHECK(none.raw[2] == Approx(4));
    CHECK(none.out_of_bounds == std::vector<uint8_t>{0, 0, 0, 0});

    // sampling_importance_ratio after and before truncation: (2 + 0.5 + 3) / 3 and (2 + 0.5 + 4) / 3.
    auto m = metrics_of(agreement({offsets, mask}, p, g, w));
    CHECK(m["sampling_importance_ratio"] == Approx(5.5 / 3));
    CHECK(m["sampling_importance_ratio/raw"] == Approx(6.5 / 3));
    CHECK(m["is_oob_ratio"] == Approx(1.0 / 3));
    auto m_none = metrics_of(agreement({offsets, mask}, p, g, none));
    CHECK(m_none["sampling_importance_ratio"] == Approx(6.5 / 3));
    CHECK(m_none["is_oob_ratio"] == 0);
}

TEST_CASE("Equal log-probs give weights of exactly 1, extreme ones finite weights", "[correction]") {
    std::vector<int64_t> offsets = {0, 3};
    std::vector<uint8_t> mask = {1, 1, 1};
    std::vector<float> p = {-1.25f, 0, -500}, g = {-1.25f, -500, 0};
    Weights w = correction_weights({offsets, mask}, p, g, {Correction::token_truncated, 2});
    CHECK(w.loss[0] == 1.0f);
    CHECK(w.raw[1] == Approx(485165195.4097903));  // e^20
    CHECK(w.loss[1] == 2.0f);
    CHECK(w.raw[2] == Approx(2.061153622438558e-9));  // e^-20
    g[0] = std::nanf("");
    CHECK(says(test::refusal([&] {
                   correction_weights({offsets, mask}, p, g, {});
               }),
               "rollout log-prob of sequence 0, token 0"));
}

TEST_CASE("Mismatch metrics at p = ln 1/2, g = ln 1/4, by their formulas", "[agreement]") {
    // exp|g - p| = 2. gen_kl: exp(p-g) - (p-g) - 1 = 2 - 0.6931472 - 1. policy_kl: 0.5 + 0.6931472 - 1.
    // JS: m = ln 0.375, p - m = ln 4/3, g - m = ln 2/3:
    //   (4/3 - 0.2876821 - 1) / 2 + (2/3 + 0.4054651 - 1) / 2 = 0.0228256 + 0.0360659 = 0.0588915
    std::vector<int64_t> offsets = {0, 1};
    std::vector<uint8_t> mask = {1};
    std::vector<float> p = {log_half}, g = {log_quarter};
    Weights w = correction_weights({offsets, mask}, p, g, {});
    auto m = metrics_of(agreement({offsets, mask}, p, g, w));
    CHECK(m["token_mult_prob_error"] == Approx(2));
    CHECK(m["gen_kl_error"] == Approx(0.3068528).epsilon(1e-6));
    CHECK(m["policy_kl_error"] == Approx(0.1931472).epsilon(1e-6));
    CHECK(m["js_divergence_error"] == Approx(0.0588915).epsilon(1e-5));
    CHECK(m["mismatch/max_abs"] == Approx(0.6931472));
    CHECK(m["mismatch/tokens"] == 1);
    CHECK(m["mismatch/differing_tokens"] == 1);
    // The other estimators: k1(g||p) is the mean of g - p, k2 half its square.
    CHECK(metrics_of(agreement({offsets, mask}, p, g, w, KlKind::k1))["gen_kl_error"] == Approx(-0.6931472));
    CHECK(metrics_of(agreement({offsets, mask}, p, g, w, KlKind::k1))["policy_kl_error"] ==
          Approx(0.6931472));
    CHECK(metrics_of(agreement({offsets, mask}, p, g, w, KlKind::k2))["gen_kl_error"] == Approx(0.2402265));
}

TEST_CASE("Equal policies give 0 and 1 exactly, over any number of tokens", "[agreement]") {
    std::vector<int64_t> offsets = {0, 3, 7};
    std::vector<uint8_t> mask = {0, 1, 1, 1, 1, 1, 1};
    std::vector<float> p = {-9, -0.1f, -3.7f, -0.3f, -12.5f, -1e-7f, 0};
    std::vector<float> g = p;
    g[0] = -1;  // masked: not compared
    Weights w = correction_weights({offsets, mask}, p, g, {});
    auto m = metrics_of(agreement({offsets, mask}, p, g, w));
    CHECK(m["token_mult_prob_error"] == 1);
    CHECK(m["gen_kl_error"] == 0);
    CHECK(m["policy_kl_error"] == 0);
    CHECK(m["js_divergence_error"] == 0);
    CHECK(m["sampling_importance_ratio"] == 1);
    CHECK(m["mismatch/max_abs"] == 0);
    CHECK(m["mismatch/differing_tokens"] == 0);
    CHECK(m["mismatch/tokens"] == 6);
    CHECK(m["max_seq_mult_prob_error"] == 1);
    CHECK(!first_mismatch({offsets, mask}, p, g));
}

TEST_CASE("Counters of two parts merge to those of the whole", "[agreement]") {
    std::vector<int64_t> offsets = {0, 2, 5}, first = {0, 2}, second = {0, 3};
    std::vector<uint8_t> mask = {1, 1, 1, 0, 1};
    std::vector<float> p = {-1, -2, -3, -4, -5}, g = {-1.5f, -2, -2.75f, 0, -5.25f};
    std::span<const uint8_t> m(mask);
    std::span<const float> ps(p), gs(g);
    auto counters = [](TokenBatch b, std::span<const float> train, std::span<const float> rollout) {
        return agreement(b, train, rollout,
                         correction_weights(b, train, rollout, {Correction::token_truncated, 1.2}));
    };
    AgreementCounters whole = counters({offsets, mask}, p, g);
    AgreementCounters parts = counters({first, m.first(2)}, ps.first(2), gs.first(2));
    merge(parts, counters({second, m.subspan(2)}, ps.subspan(2), gs.subspan(2)));
    auto a = metrics_of(whole), b = metrics_of(parts);
    REQUIRE(a.size() == b.size());
    for (auto& [name, value] : a) {
        INFO(name);
        CHECK(b[name] == Approx(value).epsilon(1e-12));
    }
    // Sequence means of exp|g - p|: (e^0.5 + 1) / 2 and e^0.25.
    CHECK(a["max_seq_mult_prob_error"] == Approx((std::exp(0.5) + 1) / 2));
    CHECK(a["min_seq_mult_prob_error"] == Approx(std::exp(0.25)));
}

TEST_CASE("The first differing token is found by its bits, and named with both values", "[agreement]") {
    std::vector<int64_t> offsets = {0, 2, 2, 5};
    std::vector<uint8_t> mask = {1, 1, 0, 1, 1};
    std::vector<float> p = {-1, -2, -3, -4, -5}, g = p;
    g[2] = 7;  // masked
    CHECK(!first_mismatch({offsets, mask}, p, g));
    g[4] = std::nextafter(-5.0f, 0.0f);
    auto found = first_mismatch({offsets, mask}, p, g);
    REQUIRE(found);
    CHECK(found->sequence == 2);
    CHECK(found->token == 2);
    CHECK(found->train == -5.0f);
    CHECK(found->rollout == g[4]);
    CHECK(says(found->text(), "sequence 2, token 2"));
    CHECK(says(found->text(), "-5 (0xc0a00000)"));
    CHECK(says(found->text(), "-4.99999952 (0xc09fffff)"));
    g[3] = 0;
    CHECK(first_mismatch({offsets, mask}, p, g)->token == 1);  // the earlier one
}

TEST_CASE("Zero and minus zero differ, and a NaN agrees with nothing", "[agreement]") {
    std::vector<int64_t> offsets = {0, 1};
    std::vector<uint8_t> mask = {1};
    std::vector<float> zero = {0.0f}, minus_zero = {-0.0f}, nan = {std::nanf("")};
    CHECK(first_mismatch({offsets, mask}, zero, minus_zero));
    CHECK(first_mismatch({offsets, mask}, nan, nan));
    CHECK(!first_mismatch({offsets, mask}, minus_zero, minus_zero));
}
