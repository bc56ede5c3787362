// cpu/math: exp and log of the forward, as polynomials with explicit fused multiply-adds: no libm, the same
// bits on every CPU, and plain enough for device code. cpu/vec holds the same steps over 16 lanes; a test
// compares all of them. Results and arguments below the smallest normal number count as zero, so
// flush-to-zero changes nothing. exp: Cody-Waite reduction by ln 2, then 1 + r + r^2 q(r), q of degree 4
// fitted to 4e-9 (largest error 1 ulp). log: mantissa in [sqrt(1/2), sqrt 2), polynomial of Cephes' logf
// (Moshier 1992; largest error 1 ulp).
#pragma once
#include "quant/formats.h"

namespace fp8rl {

namespace math {
inline constexpr float log2_e = 1.44269504088896341f;
inline constexpr float ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;  // their sum is ln 2
inline constexpr float round_magic = 12582912.0f;                           // 1.5 * 2^23
inline constexpr float exp_low = -87.33654f, exp_high = 88.7228317f;        // below: 0; above: Inf
inline constexpr float exp_q[5] = {0.49999994f, 0.16666521f, 0.04166839f, 0.008368745f, 0.001381454f};
inline constexpr float log_p[9] = {3.3333331174E-1f,  -2.4999993993E-1f, 2.0000714765E-1f,
                                   -1.6668057665E-1f, 1.4249322787E-1f,  -1.2420140846E-1f,
                                   1.1676998740E-1f,  -1.1514610310E-1f, 7.0376836292E-2f};
}  // namespace math

[[gnu::always_inline]] FP8RL_HD inline float fma_f32(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}

// e^x; 0 for x below ln(FLT_MIN), Inf above ln(FLT_MAX), NaN for NaN.
[[gnu::always_inline]] FP8RL_HD inline float exp_f32(float x) {
    if (is_nan(x)) return x;
    if (x < math::exp_low) return 0.0f;
    if (x > math::exp_high) return float_of_bits(f32_infinity_bits);
    const float t = fma_f32(x, math::log2_e, math::round_magic), n = t - math::round_magic;
    const float r = fma_f32(n, -math::ln2_low, fma_f32(n, -math::ln2_high, x));
    float q = math::exp_q[4];
    q = fma_f32(q, r, math::exp_q[3]);
    q = fma_f32(q, r, math::exp_q[2]);
    q = fma_f32(q, r, math::exp_q[1]);
    q = fma_f32(q, r, math::exp_q[0]);
    const float p = fma_f32(fma_f32(q, r, 1.0f), r, 1.0f);
    // The low bits of t hold n; adding it to the exponent multiplies by 2^n.
    return float_of_bits(bits_of(p) + (bits_of(t) << 23));
}

// Natural logarithm; -Inf for 0 and subnormals, NaN for negative numbers and NaN, Inf for Inf.
[[gnu::always_inline]] FP8RL_HD inline float log_f32(float x) {
    const uint32_t u = bits_of(x);
    if ((u & f32_abs_mask) > f32_infinity_bits) return x;
    if ((u & f32_abs_mask) < 0x00800000u) return float_of_bits(0xff800000u);
    if (u >> 31) return float_of_bits(f32_nan_bits);
    if (u == f32_infinity_bits) return x;
    // 0x3f3504f3 is sqrt(1/2): the exponent counts from there.
    const uint32_t from_root = u - 0x3f3504f3u;
    const float e = static_cast<float>(static_cast<int32_t>(from_root) >> 23);
    const float f = float_of_bits((from_root & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
    float p = math::log_p[8];
    for (int i = 7; i >= 0; --i) p = fma_f32(p, f, math::log_p[i]);
    const float f2 = f * f;
    float y = p * f * f2;
    y = fma_f32(e, math::ln2_low, y);
    y = fma_f32(-0.5f, f2, y);
    return fma_f32(e, math::ln2_high, f + y);
}

}  // namespace fp8rl
