// cpu/cast: the inner loops of quantization, one set per SIMD path, equal to quant/scales and quant/formats
// to the bit: amax, scale and cast into 16-bit words (a BF16 number: an FP8 code's value, exactly; or the
// code itself), and the shuffles that packing needs. No memory of their own, no threads.
#pragma once
#include "cpu/simd.h"
#include "quant/formats.h"

namespace fp8rl::cpu {

enum class Word : uint8_t { image, code };       // what a 16-bit word holds
enum class Tally : uint8_t { none, all, vllm };  // counting is optional; rule vllm always counts

struct CastCounts {
    uint32_t saturated = 0, flushed = 0;
};

// x[i] * factor[columns ? i : 0] (vllm: x[i] / factor, clamped) cast to FP8.
template <class T>
using CastFn = void (*)(const T* x, const float* factor, int64_t n, uint16_t* out, CastCounts& counts);

template <class T>
struct SourceKernels {
    CastFn<T> cast[2][2][2][3];  // [e5m2][Word][columns][Tally]
    // Bits of max |x|, NaN dropped.
    uint32_t (*amax)(const T* x, int64_t n);
    // The same down each of n <= 32 columns of `rows` rows, merged into bits[n].
    void (*amax_columns)(const T* x, int64_t ld, int64_t rows, int64_t n, uint32_t* bits);
    void (*round)(const T* x, int64_t n, uint16_t* out);  // to BF16
};

struct CastKernels {
    SourceKernels<float> f32;
    SourceKernels<bf16> half;
    // words[i] = low[i] | high[i] << 16, 32 of them.
    void (*interleave)(const uint16_t* low, const uint16_t* high, uint32_t* words);
    // out[c][r] = in[r][c]; rows and cols are multiples of 16.
    void (*transpose)(const uint32_t* in, int64_t ld_in, int64_t rows, int64_t cols, uint32_t* out,
                      int64_t ld_out);
    // One FP8 pair of a panel: 32 words (code | code << 16) to 64 bytes in the panel's order.
    void (*pack_codes)(const uint32_t* words, uint8_t* out);
    template <class T>
    const SourceKernels<T>& of() const;
};
template <>
inline const SourceKernels<float>& CastKernels::of<float>() const {
    return f32;
}
template <>
inline const SourceKernels<bf16>& CastKernels::of<bf16>() const {
    return half;
}

const CastKernels& cast_kernels();  // of simd()

}  // namespace fp8rl::cpu
