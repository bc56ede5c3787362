// Sampling: the draw, the cutoffs against brute force, and its log-probs equal to token_logprob's to the bit.
#include <algorithm>
#include <numeric>

#include "cpu/gemm.h"
#include "head_support.h"

using namespace fp8rl;
using namespace fp8rl::test;

namespace {

std::vector<Sampled> sampled(const Tensor& logits, const std::vector<SampleParams>& params) {
    std::vector<Sampled> out(params.size());
    cpu::sample(out, logits, params);
    return out;
}

// A head whose logits are any numbers we like: identity hidden rows and, as weights, the logits' bf16 values.
struct Row {
    Tensor logits;
    explicit Row(Tensors& t, const std::vector<float>& x)
        : logits(t.zeros(DType::f32, {1, static_cast<int64_t>(x.size())})) {
        std::copy(x.begin(), x.end(), logits.as<float>());
    }
};

// The least logit kept, by sorting everything.
float brute_cutoff(const float* x, int64_t v, const SampleParams& p) {
    std::vector<float> sorted(x, x + v);
    std::sort(sorted.begin(), sorted.end(), std::greater<float>());
    float cutoff = -INFINITY;
    if (p.top_k > 0 && p.top_k < v) cutoff = sorted[static_cast<size_t>(p.top_k - 1)];
    if (p.top_p < 1) {
        std::vector<double> w;
        for (float s : sorted)
            if (s >= cutoff) w.push_back(std::exp((static_cast<double>(s) - sorted[0]) / p.temperature));
        const double total = std::accumulate(w.begin(), w.end(), 0.0);
        double mass = 0;
        for (size_t i = 0; i < w.size(); ++i)
            if ((mass += w[i]) >= p.top_p * total) return sorted[i];
        return sorted[w.size() - 1];
    }
    return cutoff;
}

}  // namespace

TEST_CASE("sampled log-probs are token_logprob's bits, on every path, for every kind of sampling") {
    struct Size {
        int64_t v, rows;
    };
    for (Size size : {Size{264, 1200}, Size{1000, 600}, Size{49152, 12}}) {
        HeadCase c(DType::bf16, size.rows, 16, size.v, 17, 4);
        const float temperatures[] = {1.0f, 0.6f, 1.5f, 0.05f};
        for (float temperature : temperatures) {
            std::vector<SampleParams> params(static_cast<size_t>(size.rows));
            for (SampleParams& p : params) {
                p.temperature = temperature;
                p.uniform = c.t.random().uniform();
                if (c.t.random().integer(0, 1)) p.top_p = c.t.random().uniform();
                if (c.t.random().integer(0, 1))
                    p.top_k = static_cast<int32_t>(c.t.random().integer(1, size.v + 5));
            }
            same_everywhere([&] {
                const Tensor x = c.logits();
                const std::vector<Sampled> s = sampled(x, params);
                std::vector<float> cutoffs;
                for (size_t r = 0; r < s.size(); ++r) c.targets[r] = s[r].id, cutoffs.push_back(s[r].cutoff);
                c.run(temperature, cutoffs);
                for (size_t r = 0; r < s.size(); ++r) {
                    REQUIRE(bits_of(s[r].logp) == bits_of(c.logp.as<float>()[r]));
                    REQUIRE(bits_of(s[r].entropy) == bits_of(c.entropy.as<float>()[r]));
                }
                Bytes b;
                append(b, s.data(), s.size() * sizeof(Sampled));
                return b;
            });
        }
    }
}

TEST_CASE("top-k and top-p keep what sorting would keep, ties included") {
    Tensors t(5);
    for (int64_t v : {1, 7, 264, 3000})
        for (int trial = 0; trial < 60; ++trial) {
            const Tensor x = t.normal(DType::f32, {1, v}, trial % 3 == 0 ? 8.0f : 2.0f);
            // Coarse values make ties.
            if (trial % 2)
                for (int64_t i = 0; i < v; ++i) x.as<float>()[i] = std::round(x.as<float>()[i]);
            SampleParams p;
            p.temperature = trial % 4 == 0 ? 0.7f : 1.0f;
            p.uniform = t.random().uniform();
            if (trial % 5) p.top_p = t.random().uniform();
            if (trial % 3) p.top_k = static_cast<int32_t>(t.random().integer(1, v));
            const Sampled s = sampled(x, {p})[0];
            INFO("v " << v << " top_p " << p.top_p << " top_k " << p.top_k);
            REQUIRE(s.cutoff == brute_cutoff(x.as<float>(), v, p));
            REQUIRE(x.as<float>()[s.id] >= s.cutoff);
            const RowStatistics r(x.as<float>(), v, p.temperature, s.cutoff);
            REQUIRE(std::fabs(s.logp - (x.as<float>()[s.id] / p.temperature - r.lse)) < 1e-5);
        }
}

TEST_CASE("top_k 1 and top_p 0 leave the largest, top_p 1 and top_k of the vocabulary leave all") {
    Tensors t(6);
    const Row row(t, {1.0f, 5.0f, 2.0f, 5.0f});
    SampleParams p;
    p.top_k = 1;
    CHECK(sampled(row.logits, {p})[0].cutoff == 5.0f);  // both of the tied
    CHECK(sampled(row.logits, {p})[0].logp == Approx(std::log(0.5)));
    p.top_k = 0, p.top_p = 0;
    CHECK(sampled(row.logits, {p})[0].cutoff == 5.0f);
    p.top_p = 1, p.top_k = 4;
    CHECK(sampled(row.logits, {p})[0].cutoff == -INFINITY);
}

TEST_CASE("greedy takes the largest logit, the lowest id of several, and reports temperature 1") {
    Tensors t(7);
    std::vector<float> x(3000, -1.0f);
    x[2100] = x[77] = 4.0f;
    const Row row(t, x);
    SampleParams p;
    p.temperature = 0, p.top_k = 3, p.top_p = 0.2f, p.uniform = 0.999f;
    const Sampled s = sampled(row.logits, {p})[0];
    CHECK(s.id == 77);
    CHECK(s.cutoff == -INFINITY);
    CHECK(s.logp == Approx(4 - RowStatistics(x.data(), 3000, 1).lse).margin(1e-6));
}

TEST_CASE("a draw is the inverse of the cumulated probabilities in id order") {
    Tensors t(8);
    const int64_t v = 2500;
    const Tensor x = t.normal(DType::f32, {1, v}, 2);
    const RowStatistics s(x.as<float>(), v, 0.9);
    std::vector<double> cumulated;
    double sum = 0;
    for (int64_t i = 0; i < v; ++i) cumulated.push_back(sum += std::exp(x.as<float>()[i] / 0.9 - s.lse));
    SampleParams p;
    p.temperature = 0.9f;
    for (int i = 0; i < 3000; ++i) {
        p.uniform = static_cast<float>(i) / 3000;
        const auto id = static_cast<size_t>(sampled(x, {p})[0].id);
        REQUIRE(cumulated[id] >= p.uniform - 1e-5);
        REQUIRE((id == 0 || cumulated[id - 1] <= p.uniform + 1e-5));
    }
    p.uniform = std::nextafter(1.0f, 0.0f);
    CHECK(std::exp(sampled(x, {p})[0].logp) > 0);
}

TEST_CASE("draws follow the distribution they report") {
    Tensors t(9);
    const Row row(t, {0.3f, -1.0f, 2.0f, 1.1f, -0.4f, 2.0f});
    SampleParams p;
    p.top_p = 0.8f;
    std::vector<int> counts(6);
    const int draws = 20000;
    std::vector<Sampled> last(6);
    for (int i = 0; i < draws; ++i) {
        p.uniform = t.random().uniform();
        const Sampled s = sampled(row.logits, {p})[0];
        ++counts[static_cast<size_t>(s.id)];
        last[static_cast<size_t>(s.id)] = s;
    }
    double chi = 0, total = 0;
    int kept = 0;
    for (size_t i = 0; i < 6; ++i) {
        if (!counts[i]) continue;
        const double expected = std::exp(last[i].logp) * draws;
        total += std::exp(last[i].logp);
        chi += std::pow(counts[i] - expected, 2) / expected;
        ++kept;
    }
    CHECK(kept == 3);
    CHECK(total == Approx(1).margin(1e-6));
    CHECK(chi < 16.3);  // 3 degrees would pass 99.9 %; we have 2
}

TEST_CASE("NaN and infinite logits are defects; minus infinity is a token that never comes") {
    Tensors t(10);
    Row row(t, {0.0f, -INFINITY, 1.0f});
    SampleParams p;
    for (int i = 0; i < 50; ++i) {
        p.uniform = static_cast<float>(i) / 50;
        const Sampled s = sampled(row.logits, {p})[0];
        REQUIRE(s.id != 1);
        REQUIRE(std::isfinite(s.entropy));
    }
    for (float bad : {NAN, INFINITY}) {
        row.logits.as<float>()[1] = bad;
        for (float temperature : {0.0f, 1.0f}) {
            p.temperature = temperature;
            REQUIRE_THROWS_AS(sampled(row.logits, {p}), Error);
        }
    }
}

TEST_CASE(
    "f03: log-probs of sampled ids at temperature 0.6, 1 and 1.5, the same in training and in rollout") {
    const nlohmann::json f = read_json("f03_temperature_logprobs.json");
    const auto& rows = f["input"]["logits"];
    const auto ids = f["input"]["sampled_ids"].get<std::vector<int32_t>>();
    const int64_t n = static_cast<int64_t>(rows.size()), v = static_cast<int64_t>(rows[0].size());
    // Logits through a head: hidden = unit vectors, weights = the logits' columns.
    HeadCase c(DType::f32, n, 4, v, 1);
    std::fill(c.h.as<float>(), c.h.as<float>() + c.h.size(), 0.0f);
    std::fill(c.master.as<float>(), c.master.as<float>() + c.master.size(), 0.0f);
    for (int64_t r = 0; r < n; ++r) {
        c.h.as<float>()[r * 4 + r] = 1;
        for (int64_t i = 0; i < v; ++i)
            c.master.as<float>()[i * 4 + r] = rows[static_cast<size_t>(r)][static_cast<size_t>(i)];
    }
    cpu::prepare(c.weight, c.master);
    c.targets = ids;
    const Tensor x = c.logits();
    for (const auto& [name, expected] : f["expect"]["rollout_logprob_equals_train_logprob"].items()) {
        const float temperature = std::stof(name);
        c.run(temperature);
        for (int64_t r = 0; r < n; ++r) {
            CHECK(std::fabs(at(c.logp, r) - expected[static_cast<size_t>(r)].get<double>()) <=
                  f["expect"]["abs_tol"].get<double>());
            // Some uniform number draws the id that the case names.
            SampleParams p;
            p.temperature = temperature;
            Sampled s;
            for (int i = 0; i < 1000; ++i) {
                p.uniform = static_cast<float>(i) / 1000;
                s = sampled(x.row_range(r, 1), {p})[0];
                if (s.id == ids[static_cast<size_t>(r)]) break;
            }
            REQUIRE(s.id == ids[static_cast<size_t>(r)]);
            CHECK(bits_of(s.logp) == bits_of(c.logp.as<float>()[r]));
        }
    }
}
