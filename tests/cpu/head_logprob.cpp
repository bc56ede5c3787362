// Token log-probabilities and their gradient: double arithmetic, finite differences, every path, chunk by
// chunk.
#include "head_support.h"

using namespace fp8rl;
using namespace fp8rl::test;

TEST_CASE("token_logprob is the log-softmax of the target at the temperature, above the cutoff") {
    for (DType type : {DType::f32, DType::bf16})
        for (int64_t v : {5, 264, 1000, 5000})
            for (float temperature : {1.0f, 0.6f, 1.5f}) {
                HeadCase c(type, 7, 32, v, static_cast<uint64_t>(v), 3);
                const Tensor x = c.logits();
                std::vector<float> cutoffs;
                for (int64_t r = 0; r < 7; ++r)
                    cutoffs.push_back(r % 2 ? -INFINITY
                                            : x.as<float>()[r * v + c.targets[static_cast<size_t>(r)]]);
                for (int with : {0, 1}) {
                    c.run(temperature, with ? std::span<const float>(cutoffs) : std::span<const float>{});
                    for (int64_t r = 0; r < 7; ++r) {
                        const float* row = x.as<float>() + r * v;
                        const RowStatistics s(row, v, temperature,
                                              with ? cutoffs[static_cast<size_t>(r)] : -INFINITY);
                        const double want =
                            row[c.targets[static_cast<size_t>(r)]] / static_cast<double>(temperature) - s.lse;
                        CHECK(std::fabs(at(c.logp, r) - want) < 4e-6 * (1 + std::fabs(want)));
                        CHECK(std::fabs(at(c.lse, r) - s.lse) < 2e-6 * (1 + std::fabs(s.lse)));
                        CHECK(std::fabs(at(c.entropy, r) - s.entropy) < 1e-5 * (1 + s.entropy));
                    }
                }
            }
}

TEST_CASE("a target below its cutoff has probability zero") {
    HeadCase c(DType::f32, 1, 8, 20, 4);
    const Tensor x = c.logits();
    const std::vector<float> cutoffs = {std::nextafter(x.as<float>()[c.targets[0]], INFINITY)};
    c.run(1, cutoffs);
    CHECK(at(c.logp, 0) == -INFINITY);
}

TEST_CASE("token_logprob and its gradient give the same bytes on every path") {
    for (DType type : {DType::f32, DType::bf16})
        for (int64_t v : {7, 1000, 9001}) {
            HeadCase c(type, 37, 48, v, static_cast<uint64_t>(v) + 1);
            const Tensor dlogp = c.t.normal(DType::f32, {37}), dentropy = c.t.normal(DType::f32, {37});
            const Tensor dhead0 = c.t.normal(DType::f32, {v, 48});
            dlogp.as<float>()[3] = dentropy.as<float>()[3] = 0;
            same_everywhere([&] {
                c.run(0.8f);
                const Tensor dh = c.t.zeros(type, {37, 48}), dhead = c.t.copy(dhead0);
                cpu::token_logprob_backward(dh, dhead, dlogp, dentropy, c.lse, c.entropy, c.h, c.weight,
                                            c.targets, {}, 0.8f);
                Bytes b;
                for (const Tensor& t : {c.logp, c.entropy, c.lse, dh, dhead}) append(b, t);
                return b;
            });
        }
}

TEST_CASE("a row's log-prob does not depend on the rows beside it") {
    HeadCase c(DType::bf16, 700, 16, 1500, 9);
    c.run(1);
    const Tensor all = c.t.copy(c.logp), logp = c.t.zeros(DType::f32, {1}), lse = c.t.zeros(DType::f32, {1});
    for (int64_t first : {0, 511, 512, 699}) {
        cpu::token_logprob(logp, {}, lse, c.h.row_range(first, 1), c.weight,
                           {&c.targets[static_cast<size_t>(first)], 1}, {}, 1);
        REQUIRE(bits_of(logp.as<float>()[0]) == bits_of(all.as<float>()[first]));
    }
}

TEST_CASE("token_logprob_backward agrees with central differences and adds to dhead") {
    for (int64_t v : {11, 23}) {
        const int64_t n = 4, width = 6;
        HeadCase c(DType::f32, n, width, v, 21);
        const float temperature = 0.7f;
        const Tensor dlogp = c.t.normal(DType::f32, {n}), dentropy = c.t.normal(DType::f32, {n});
        const Tensor logits = c.logits();
        // Rows 1 and 3 leave out ids well below the target's logit.
        std::vector<float> cutoffs(4, -INFINITY);
        for (int64_t r : {1, 3})
            cutoffs[static_cast<size_t>(r)] =
                logits.as<float>()[r * v + c.targets[static_cast<size_t>(r)]] - 1e-3f;
        std::vector<double> h = values(c.h), w = values(c.master);
        std::vector<std::vector<bool>> kept(static_cast<size_t>(n),
                                            std::vector<bool>(static_cast<size_t>(v)));
        for (int64_t r = 0; r < n; ++r)
            for (int64_t i = 0; i < v; ++i)
                kept[static_cast<size_t>(r)][static_cast<size_t>(i)] =
                    logits.as<float>()[r * v + i] >= cutoffs[static_cast<size_t>(r)];
        const auto loss = [&] {
            double total = 0;
            for (int64_t r = 0; r < n; ++r) {
                double sum = 0, moment = 0, chosen = 0;
                for (int64_t i = 0; i < v; ++i) {
                    if (!kept[static_cast<size_t>(r)][static_cast<size_t>(i)]) continue;
                    double s = 0;
                    for (int64_t k = 0; k < width; ++k)
                        s += h[static_cast<size_t>(r * width + k)] * w[static_cast<size_t>(i * width + k)];
                    s /= temperature;
                    sum += std::exp(s), moment += s * std::exp(s);
                    if (i == c.targets[static_cast<size_t>(r)]) chosen = s;
                }
                total += at(dlogp, r) * (chosen - std::log(sum)) +
                         at(dentropy, r) * (std::log(sum) - moment / sum);
            }
            return total;
        };
        const auto difference = [&](std::vector<double>& x) {
            std::vector<double> out;
            for (double& e : x) {
                const double keep = e, step = 1e-5;
                e = keep + step;
                const double up = loss();
                e = keep - step;
                const double down = loss();
                e = keep;
                out.push_back((up - down) / (2 * step));
            }
            return out;
        };
        const Tensor dh = c.t.zeros(DType::f32, {n, width}), dhead = c.t.normal(DType::f32, {v, width});
        std::vector<double> want = values(dhead);
        const std::vector<double> dw = difference(w);
        for (size_t i = 0; i < want.size(); ++i) want[i] += dw[i];
        c.run(temperature, cutoffs);
        cpu::token_logprob_backward(dh, dhead, dlogp, dentropy, c.lse, c.entropy, c.h, c.weight, c.targets,
                                    cutoffs, temperature);
        require_near(dh, difference(h), 5e-6);
        require_near(dhead, want, 5e-6);
    }
}

TEST_CASE("more rows than a chunk give the gradient of their sum") {
    HeadCase c(DType::bf16, 1300, 16, 300, 31);
    const Tensor dlogp = c.t.normal(DType::f32, {1300});
    const Tensor dh = c.t.zeros(DType::bf16, {1300, 16}), dhead = c.t.zeros(DType::f32, {300, 16});
    c.run(1);
    cpu::token_logprob_backward(dh, dhead, dlogp, {}, c.lse, {}, c.h, c.weight, c.targets, {}, 1);
    const Tensor x = c.logits();
    std::vector<double> want_dh(static_cast<size_t>(dh.size())), want(static_cast<size_t>(dhead.size()));
    for (int64_t r = 0; r < 1300; ++r) {
        const RowStatistics s(x.as<float>() + r * 300, 300, 1);
        for (int64_t i = 0; i < 300; ++i) {
            const double p = std::exp(x.as<float>()[r * 300 + i] - s.lse);
            const double d = at(dlogp, r) * ((i == c.targets[static_cast<size_t>(r)]) - p);
            for (int64_t k = 0; k < 16; ++k) {
                want[static_cast<size_t>(i * 16 + k)] += d * at(c.h, r * 16 + k);
                want_dh[static_cast<size_t>(r * 16 + k)] += d * round_bf16(c.master.as<float>()[i * 16 + k]);
            }
        }
    }
    require_near(dh, want_dh, 2e-3);
    require_near(dhead, want, 5e-3);
}

TEST_CASE("a temperature that is not positive, and a target outside the vocabulary, are defects") {
    HeadCase c(DType::bf16, 2, 8, 20, 5);
    REQUIRE_THROWS_AS(c.run(0), Error);
    c.targets[1] = 20;
    REQUIRE_THROWS_AS(c.run(1), Error);
}
