// What the GEMM and quantization tests share: memory, random matrices, and the sum of DESIGN section 4 as a
// literal double loop over codes and scales that lib/quant made.
#pragma once
#include <immintrin.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/arena.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "cpu/cpu_backend.h"
#include "cpu/gemm.h"
#include "cpu/quantize.h"
#include "cpu/weight.h"
#include "quant/quantize.h"

namespace fp8rl::test {

// An arena with its own memory.
class Memory {
  public:
    explicit Memory(size_t bytes = size_t{64} << 20)
        : base_(std::aligned_alloc(4096, bytes)), arena_("test", base_, bytes) {}
    ~Memory() { std::free(base_); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    Arena& arena() { return arena_; }
    Tensor copy(const std::vector<float>& v, int64_t rows, int64_t cols, DType type) {
        Tensor t = arena_.tensor(type, {rows, cols});
        for (size_t i = 0; i < v.size(); ++i)
            if (type == DType::f32)
                t.as<float>()[i] = v[i];
            else
                t.as<bf16>()[i] = to_bf16(v[i]);
        return t;
    }

  private:
    void* base_;
    Arena arena_;
};

// BF16 numbers of mixed magnitude.
inline std::vector<float> random_values(int64_t n, uint32_t key) {
    Random r(7, Stream::test, key);
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = round_bf16(r.normal() * std::ldexp(1.0f, static_cast<int>(r.integer(-6, 6))));
    return v;
}

// One side as numbers: element values before scales, and the scale of each (row, block of K).
struct Side1 {
    int64_t rows = 0, k = 0;
    std::vector<float> values;
    QuantSpec spec;
    Quantized q;
    float scale(int64_t row, int64_t kk) const {
        return spec.quantized() ? q.scales[static_cast<size_t>(q.grid.index(row, kk))] : 1.0f;
    }
};

inline Side1 side_of(const std::vector<float>& x, int64_t rows, int64_t k, const QuantSpec& spec,
                     const float* multiplier = nullptr) {
    Side1 s;
    s.rows = rows, s.k = k, s.spec = spec, s.values = x;
    if (spec.quantized()) {
        s.q = quantize_reference(x, rows, k, spec, multiplier);
        for (size_t i = 0; i < x.size(); ++i) s.values[i] = decode(spec.format, s.q.codes[i]);
    }
    return s;
}

// C = A B^T by the definition; FTZ and DAZ around it.
inline std::vector<float> literal_gemm(const Side1& a, const Side1& b,
                                       const std::vector<float>* add = nullptr) {
    const unsigned saved = _mm_getcsr();
    _mm_setcsr(saved | 0x8040u);
    const int64_t block = std::min(a.spec.k_block(), b.spec.k_block());
    const bool ta = a.spec.whole_tensor(), tb = b.spec.whole_tensor();
    std::vector<float> c(static_cast<size_t>(a.rows * b.rows));
    for (int64_t m = 0; m < a.rows; ++m)
        for (int64_t n = 0; n < b.rows; ++n) {
            volatile float total = 0;
            for (int64_t k0 = 0; k0 < a.k; k0 += block) {
                float sum = 0;
                const int64_t end = std::min(k0 + block, (a.k + 1) / 2 * 2);
                for (int64_t k = k0; k < end; k += 2)
                    for (int64_t kk : {k + 1, k}) {
                        const bool in = kk < a.k;
                        sum = std::fma(in ? a.values[static_cast<size_t>(m * a.k + kk)] : 0.0f,
                                       in ? b.values[static_cast<size_t>(n * b.k + kk)] : 0.0f, sum);
                    }
                volatile float s = (ta ? 1.0f : a.scale(m, k0));
                s = s * (tb ? 1.0f : b.scale(n, k0));
                total = std::fma(sum, s, total);
            }
            if (ta || tb) {
                volatile float s = ta ? a.scale(0, 0) : 1.0f;
                s = s * (tb ? b.scale(0, 0) : 1.0f);
                total = total * s;
            }
            const size_t i = static_cast<size_t>(m * b.rows + n);
            if (add) total = (*add)[i] + total;
            c[i] = is_nan(total) ? float_of_bits(f32_nan_bits) : total;
        }
    _mm_setcsr(saved);
    return c;
}

inline bool same_bits(const std::vector<float>& a, const float* b) {
    return std::memcmp(a.data(), b, a.size() * sizeof(float)) == 0;
}

// Restores path and threads when it ends.
class Setting {
  public:
    Setting(cpu::Simd s, int threads) : simd_(cpu::simd()), threads_(parallel::threads()) {
        cpu::set_simd(s);
        parallel::set_threads(threads);
    }
    ~Setting() {
        cpu::set_simd(simd_);
        parallel::set_threads(threads_);
    }
    Setting(const Setting&) = delete;
    Setting& operator=(const Setting&) = delete;

  private:
    cpu::Simd simd_;
    int threads_;
};

}  // namespace fp8rl::test
