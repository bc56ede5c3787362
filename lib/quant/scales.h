// quant/scales: the scale rules, for host and device: from a block's amax to its scale, and from a value and
// a scale to a code. Everything is one IEEE FP32 operation at a time (no flush to zero, no fast division), so
// a kernel that calls these gives the reference's bytes. Sources: Transformer Engine (te; MXFP8 round-up),
// vLLM's per-token-group quantization (vllm). The amax of a block is `amax_of` over its values, NaN dropped.
#pragma once
#include "quant/formats.h"
#include "quant/spec.h"

namespace fp8rl {

struct Scale {
    float multiplier = 1;  // te, e8m0: q = sat(x * multiplier)
    float stored = 1;      // value = decode(q) * stored; vllm: q = sat(x / stored)
    uint8_t e8m0 = 127;    // code of `stored` when the kind is e8m0
};

FP8RL_HD constexpr float pow2_floor(float positive_normal) {
    return float_of_bits(bits_of(positive_normal) & f32_infinity_bits);
}

// s = fmax / amax; 1 when amax is 0 or not finite. `overflow` replaces an infinite quotient.
FP8RL_HD constexpr Scale te_scale(float amax, DType format, bool pow2, float overflow) {
    Scale s;
    if (amax > 0 && is_finite(amax)) {
        s.multiplier = max_of(format) / amax;
        if (!is_finite(s.multiplier)) s.multiplier = overflow;
        if (pow2) s.multiplier = pow2_floor(s.multiplier);
        s.stored = 1.0f / s.multiplier;
    }
    return s;
}

// stored = max(amax, 1e-10) / 448, with pow2 rounded up to a power of two. An infinite amax stays infinite.
FP8RL_HD constexpr Scale vllm_scale(float amax, DType format, bool pow2) {
    Scale s;
    s.stored = (amax > 1e-10f ? amax : 1e-10f) / max_of(format);
    if (pow2 && is_finite(s.stored)) s.stored = decode_e8m0(e8m0_ceil(s.stored > 1e-10f ? s.stored : 1e-10f));
    s.multiplier = 1.0f / s.stored;
    return s;
}

// The exponent of amax / fmax rounded up.
FP8RL_HD constexpr Scale mx_scale(float amax, DType format) {
    Scale s;
    const float inverse = format == DType::e5m2 ? static_cast<float>(1.0 / static_cast<double>(E5m2::max))
                                                : static_cast<float>(1.0 / static_cast<double>(E4m3::max));
    s.e8m0 = e8m0_ceil(amax * inverse);
    s.stored = decode_e8m0(s.e8m0);
    s.multiplier = 1.0f / s.stored;
    return s;
}

// By spec, from the amax of one of its blocks.
FP8RL_HD constexpr Scale scale_of(const QuantSpec& spec, float amax) {
    const bool pow2 = spec.scale == ScaleKind::pow2;
    if (spec.scale == ScaleKind::e8m0) return mx_scale(amax, spec.format);
    if (spec.rule == ScaleRule::vllm) return vllm_scale(amax, spec.format, pow2);
    return te_scale(amax, spec.format, pow2, spec.whole_tensor() ? f32_max : bf16_max);
}

// A whole tensor's scale that was fixed before its values were known.
FP8RL_HD constexpr Scale scale_of_multiplier(float multiplier) {
    return {multiplier, 1.0f / multiplier, 127};
}

// x in the code's units, before the cast. vllm clamps as C's fminf and fmaxf do: a NaN quotient becomes
// -fmax.
FP8RL_HD constexpr float scaled(const QuantSpec& spec, const Scale& s, float x) {
    if (spec.rule != ScaleRule::vllm) return x * s.multiplier;
    const float limit = max_of(spec.format), q = x / s.stored;
    return q > -limit ? (q < limit ? q : limit) : -limit;
}

// ---- KV cache: one static scale, code = sat(x / scale), value = bf16(decode(code) * scale).

FP8RL_HD constexpr uint8_t kv_encode(float x, float scale) { return encode<E4m3>(x / scale); }
FP8RL_HD constexpr float kv_decode(uint8_t code, float scale) {
    return round_bf16(decode<E4m3>(code) * scale);
}

// The next scale from what was seen: amax * margin / fmax; 1 when nothing usable was seen.
FP8RL_HD constexpr float kv_scale(float amax, float margin) {
    const float s = amax * margin / E4m3::max;
    return s > 0 && is_finite(s) ? s : 1.0f;
}

}  // namespace fp8rl
