// quant/spec: what a tensor is quantized to, as data. Nothing here computes; quant/quantize.h holds the
// rules. A recipe's mode ("blockwise", "mxfp8", ...) is only a set of these values (quant/policy.h).
#pragma once
#include <cstdint>
#include <string>

#include "core/dtype.h"

namespace fp8rl {

enum class ScaleKind : uint8_t {
    none,  // no scale: bf16 and fp32
    f32,   // FP32 multiplier
    pow2,  // FP32 multiplier rounded down to a power of two
    e8m0,  // UE8M0, exponent rounded up (MXFP8, "te_rceil" in the goldens)
};

enum class ScaleRule : uint8_t {
    te,    // Transformer Engine: s = fmax/amax, q = sat(x*s), stored scale 1/s
    vllm,  // stored scale max(amax,1e-10)/448, q = x/s; rollout side only
};

enum class Scaling : uint8_t {
    current,  // from the values being quantized
    delayed,  // whole tensor only: from a history, frozen for a step (exact)
    fixed,    // whole tensor only: the recipe's `static` number
};

struct QuantSpec {
    DType format = DType::bf16;  // f32 | bf16 | e4m3 | e5m2
    ScaleKind scale = ScaleKind::none;
    ScaleRule rule = ScaleRule::te;
    Scaling scaling = Scaling::current;
    int32_t block_rows = 0;  // rows that share a scale; 0: all of them
    int32_t block_k = 0;     // elements along K that share a scale; 0: all of them

    bool quantized() const { return format == DType::e4m3 || format == DType::e5m2; }
    bool whole_tensor() const { return quantized() && block_k == 0; }
    // Elements of K that the GEMM sums before it applies scales (DESIGN section 4): 32 for MXFP8, else 128.
    int32_t k_block() const { return block_k == 32 ? 32 : 128; }
    bool operator==(const QuantSpec&) const = default;

    static QuantSpec f32() { return {DType::f32, ScaleKind::none, ScaleRule::te, Scaling::current, 0, 0}; }
    static QuantSpec bf16() { return {}; }
    static QuantSpec tensor(DType format, ScaleKind kind = ScaleKind::f32,
                            Scaling scaling = Scaling::current) {
        return {format, kind, ScaleRule::te, scaling, 0, 0};
    }
    static QuantSpec block_1x128(ScaleKind kind = ScaleKind::f32, DType format = DType::e4m3) {
        return {format, kind, ScaleRule::te, Scaling::current, 1, 128};
    }
    static QuantSpec block_128x128(ScaleKind kind = ScaleKind::f32, DType format = DType::e4m3) {
        return {format, kind, ScaleRule::te, Scaling::current, 128, 128};
    }
    static QuantSpec mx(DType format = DType::e4m3) {
        return {format, ScaleKind::e8m0, ScaleRule::te, Scaling::current, 1, 32};
    }
};

// "e4m3 1x128 f32", "bf16": for tables and messages.
std::string describe(const QuantSpec& s);

// What a quantization did to its values; zeros that were zero before are not flushed.
struct QuantCounts {
    uint64_t values = 0;
    uint64_t saturated = 0;  // would round above the format's largest (formats.h: saturates)
    uint64_t flushed = 0;    // non-zero became zero
    void add(const QuantCounts& o) { values += o.values, saturated += o.saturated, flushed += o.flushed; }
};

// The three operands of a linear layer's GEMMs.
enum class Role : uint8_t { weight, activation, gradient };

}  // namespace fp8rl
