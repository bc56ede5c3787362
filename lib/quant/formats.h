// quant/formats: every number format's codec, for host and device: BF16, F16, E4M3 (fn, largest 448), E5M2
// (largest 57344), UE8M0. Rounding is to nearest even; encode saturates (Inf too), NaN stays NaN (code 7f).
// Plain integer arithmetic plus one IEEE add, no libm, and the same result with denormals-are-zero set or not
// (an E8M0 code 0 and an F32-subnormal result apart). Sources: OCP "8-bit floating point" 1.0 and
// "Microscaling" 1.0. Nobody outside this file types a format's largest value.
#pragma once
#include <cstdint>

#include "core/dtype.h"

#ifdef __CUDACC__
#define FP8RL_HD __host__ __device__
#else
#define FP8RL_HD
#endif

namespace fp8rl {

FP8RL_HD constexpr uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
FP8RL_HD constexpr float float_of_bits(uint32_t u) { return __builtin_bit_cast(float, u); }

inline constexpr uint32_t f32_abs_mask = 0x7fffffffu;
inline constexpr uint32_t f32_infinity_bits = 0x7f800000u;
inline constexpr uint32_t f32_nan_bits = 0x7fc00000u;
inline constexpr float f32_max = 3.402823466e+38f;   // 7f7fffff
inline constexpr float bf16_max = 3.389531390e+38f;  // 7f7f0000

FP8RL_HD constexpr float absolute(float x) { return float_of_bits(bits_of(x) & f32_abs_mask); }
FP8RL_HD constexpr bool is_nan(float x) { return (bits_of(x) & f32_abs_mask) > f32_infinity_bits; }
FP8RL_HD constexpr bool is_finite(float x) { return (bits_of(x) & f32_abs_mask) < f32_infinity_bits; }

// The larger magnitude as amax reductions take it: a NaN operand is dropped (CUDA's fmaxf). a is already >=
// 0.
FP8RL_HD constexpr float amax_of(float a, float x) {
    const float m = absolute(x);
    return m > a ? m : a;
}

// ---- BF16

FP8RL_HD constexpr float to_float(bf16 x) { return float_of_bits(static_cast<uint32_t>(x.bits) << 16); }

FP8RL_HD constexpr bf16 to_bf16(float x) {
    const uint32_t u = bits_of(x);
    const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const uint32_t quiet = (u >> 16) | 0x40u;
    return {static_cast<uint16_t>((u & f32_abs_mask) > f32_infinity_bits ? quiet : rounded)};
}

// The nearest BF16 value, as a float.
FP8RL_HD constexpr float round_bf16(float x) { return to_float(to_bf16(x)); }

// ---- FP8

struct E4m3 {
    static constexpr DType type = DType::e4m3;
    static constexpr float max = 448.0f;
    static constexpr int mantissa = 3, bias = 7;
    static constexpr uint32_t max_code = 0x7e, nan_code = 0x7f, overflow_code = 0x7f;  // no Inf: NaN instead
    static constexpr uint32_t overflow_bits =
        0x43e80001;  // F32: the least that rounds above max, next to 464
};

struct E5m2 {
    static constexpr DType type = DType::e5m2;
    static constexpr float max = 57344.0f;
    static constexpr int mantissa = 2, bias = 15;
    static constexpr uint32_t max_code = 0x7b, nan_code = 0x7f, overflow_code = 0x7c;  // Inf
    static constexpr uint32_t overflow_bits = 0x47700000;                              // 61440
};

// The code of a magnitude (F32 bits without sign, not NaN), not limited above. Normals round in the integer
// representation; below the smallest normal, adding 2^(23 + exponent of the smallest subnormal) makes the FP
// adder round to that subnormal's grid.
template <class F>
FP8RL_HD constexpr uint32_t round_magnitude(uint32_t u) {
    constexpr int shift = 23 - F::mantissa;
    constexpr uint32_t smallest_normal = static_cast<uint32_t>(127 + 1 - F::bias) << 23;
    constexpr float grid = float_of_bits(static_cast<uint32_t>(127 + 23 + 1 - F::bias - F::mantissa) << 23);
    const uint32_t half = (1u << (shift - 1)) - 1u + ((u >> shift) & 1u);
    const uint32_t normal = (u + half - (static_cast<uint32_t>(127 - F::bias) << 23)) >> shift;
    const uint32_t subnormal = bits_of(float_of_bits(u < smallest_normal ? u : 0u) + grid) - bits_of(grid);
    return u < smallest_normal ? subnormal : normal;
}

// Saturating: a magnitude above F::max, Inf included, becomes F::max.
template <class F>
FP8RL_HD constexpr uint8_t encode(float x) {
    const uint32_t u = bits_of(x) & f32_abs_mask, sign = bits_of(x) >> 24 & 0x80u;
    const uint32_t limited = u < bits_of(F::max) ? u : bits_of(F::max);
    return static_cast<uint8_t>(u > f32_infinity_bits ? F::nan_code : sign | round_magnitude<F>(limited));
}

// Not saturating: what rounds above F::max becomes NaN (E4M3) or Inf (E5M2).
template <class F>
FP8RL_HD constexpr uint8_t encode_unsaturated(float x) {
    const uint32_t u = bits_of(x) & f32_abs_mask, sign = bits_of(x) >> 24 & 0x80u;
    if (u > f32_infinity_bits) return static_cast<uint8_t>(F::nan_code);
    const uint32_t code = round_magnitude<F>(u);
    return static_cast<uint8_t>(code <= F::max_code               ? sign | code
                                : F::overflow_code == F::nan_code ? F::nan_code
                                                                  : sign | F::overflow_code);
}

template <class F>
FP8RL_HD constexpr float decode(uint8_t code) {
    constexpr int shift = 23 - F::mantissa;
    constexpr uint32_t rebias = static_cast<uint32_t>(127 - F::bias) << 23;
    constexpr float subnormal_unit =
        float_of_bits(static_cast<uint32_t>(127 + 1 - F::bias - F::mantissa) << 23);
    const uint32_t magnitude = code & 0x7fu, sign = static_cast<uint32_t>(code & 0x80u) << 24;
    uint32_t u = (magnitude << shift) + rebias;
    if (magnitude < (1u << F::mantissa)) u = bits_of(static_cast<float>(magnitude) * subnormal_unit);
    if (magnitude > F::max_code)
        u = F::overflow_code != F::nan_code && magnitude == F::overflow_code ? f32_infinity_bits
                                                                             : f32_nan_bits;
    return float_of_bits(sign | u);
}

template <class F>
FP8RL_HD constexpr bool is_nan_code(uint8_t code) {
    return (code & 0x7fu) > (F::overflow_code == F::nan_code ? F::max_code : F::overflow_code);
}

// Whether the cast of x saturates, i.e. x would round above F::max. (A block's own amax times its scale may
// exceed F::max by a rounding error; that is no saturation.) NaN is not counted.
template <class F>
FP8RL_HD constexpr bool saturates(float x) {
    const uint32_t u = bits_of(x) & f32_abs_mask;
    return u >= F::overflow_bits && u <= f32_infinity_bits;
}

// The same by run-time format; e4m3 and e5m2 only.
FP8RL_HD constexpr uint8_t encode(DType format, float x) {
    return format == DType::e5m2 ? encode<E5m2>(x) : encode<E4m3>(x);
}
FP8RL_HD constexpr float decode(DType format, uint8_t code) {
    return format == DType::e5m2 ? decode<E5m2>(code) : decode<E4m3>(code);
}
FP8RL_HD constexpr bool saturates(DType format, float x) {
    return format == DType::e5m2 ? saturates<E5m2>(x) : saturates<E4m3>(x);
}
FP8RL_HD constexpr float max_of(DType format) { return format == DType::e5m2 ? E5m2::max : E4m3::max; }

// ---- UE8M0: 2^(code - 127); code 255 is NaN

FP8RL_HD constexpr float decode_e8m0(uint8_t code) {
    const uint32_t u = code == 0     ? 0x00400000u
                       : code == 255 ? f32_nan_bits
                                     : static_cast<uint32_t>(code) << 23;
    return float_of_bits(u);
}

// The smallest code whose value is >= x: 0 for x <= 2^-127, 254 for overflow and Inf, 255 for NaN.
FP8RL_HD constexpr uint8_t e8m0_ceil(float x) {
    const uint32_t u = bits_of(x);
    if ((u & f32_abs_mask) > f32_infinity_bits) return 255;
    if (u >> 31 || u <= 0x00400000u) return 0;
    const uint32_t code = (u >> 23) + ((u & 0x007fffffu) != 0);
    return static_cast<uint8_t>(code < 254u ? code : 254u);
}

// The largest code whose value is <= x, not below 0; 254 for Inf, 255 for NaN.
FP8RL_HD constexpr uint8_t e8m0_floor(float x) {
    const uint32_t u = bits_of(x);
    if ((u & f32_abs_mask) > f32_infinity_bits) return 255;
    if (u >> 31) return 0;
    const uint32_t code = u >> 23;
    return static_cast<uint8_t>(code < 254u ? code : 254u);
}

// ---- F16 (files only)

FP8RL_HD constexpr float f16_to_float(uint16_t h) {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, e = h >> 10 & 31u, m = h & 0x3ffu;
    const uint32_t normal = (e + 112u) << 23 | m << 13;
    const uint32_t subnormal = bits_of(static_cast<float>(m) * 5.9604644775390625e-8f);  // 2^-24
    const uint32_t special = f32_infinity_bits | m << 13;
    return float_of_bits(sign | (e == 0 ? subnormal : e == 31 ? special : normal));
}

}  // namespace fp8rl
