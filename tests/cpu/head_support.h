// A language-model head for the tests of token_logprob and sample.
#pragma once
#include "core/arena.h"
#include "cpu/head.h"
#include "cpu/weight.h"
#include "ops_support.h"

namespace fp8rl::test {

struct HeadCase {
    HeadCase(DType type, int64_t n, int64_t c, int64_t vocabulary, uint64_t seed, float scale = 1)
        : t(seed),
          rows(n),
          v(vocabulary),
          memory(static_cast<size_t>(vocabulary * c * 24 + (1 << 20))),
          arena("test", aligned(), memory.size() - 4096) {
        h = t.normal(type, {n, c}, scale);
        master = t.normal(DType::f32, {vocabulary, c}, 1 / std::sqrt(static_cast<float>(c)));
        WeightSpec spec;
        spec.forward = spec.backward_spec = type == DType::f32 ? QuantSpec::f32() : QuantSpec::bf16();
        spec.backward = true;
        weight = cpu::reserve_weight(vocabulary, c, spec, arena);
        cpu::prepare(weight, master);
        logp = t.zeros(DType::f32, {n}), entropy = t.zeros(DType::f32, {n}), lse = t.zeros(DType::f32, {n});
        for (int64_t i = 0; i < n; ++i)
            targets.push_back(static_cast<int32_t>(t.random().integer(0, vocabulary - 1)));
    }
    void run(float temperature, std::span<const float> cutoffs = {}) {
        cpu::token_logprob(logp, entropy, lse, h, weight, targets, cutoffs, temperature);
    }
    Tensor logits() {
        const Tensor x = t.zeros(DType::f32, {rows, v});
        cpu::logits(x, h, weight);
        return x;
    }
    void* aligned() {
        const uintptr_t p = reinterpret_cast<uintptr_t>(memory.data());
        return reinterpret_cast<void*>((p + 255) / 256 * 256);
    }

    Tensors t;
    int64_t rows, v;
    std::vector<uint8_t> memory;
    Arena arena;
    Tensor h, master, logp, entropy, lse;
    Weight weight;
    std::vector<int32_t> targets;
};

// Log-softmax of one row in double, over ids at or above the cutoff.
struct RowStatistics {
    double lse = 0, entropy = 0;
    RowStatistics(const float* x, int64_t v, double temperature, float cutoff = -INFINITY) {
        double largest = -INFINITY, sum = 0, moment = 0;
        for (int64_t i = 0; i < v; ++i)
            if (x[i] >= cutoff) largest = std::max(largest, x[i] / temperature);
        for (int64_t i = 0; i < v; ++i)
            if (x[i] >= cutoff) {
                const double d = x[i] / temperature - largest, e = std::exp(d);
                sum += e;
                if (e > 0) moment += e * d;
            }
        lse = largest + std::log(sum);
        entropy = std::log(sum) - moment / sum;
    }
};

}  // namespace fp8rl::test
