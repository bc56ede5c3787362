// quant/policy: precision rules (what a recipe says) become one table (what each linear layer does). The
// table is keyed by the published module name ("model.layers.3.mlp.down_proj") and says why. Refused: a
// module pattern that matches nothing, more first/last layers than there are. `exactness` reads two such
// tables and says whether rollout and training compute the same bits, and if not, why.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "quant/spec.h"

namespace fp8rl {

enum class PrecisionMode : uint8_t { bf16, fp32, per_tensor, blockwise, mxfp8 };
enum class BackwardFormat : uint8_t { e4m3, e5m2, bf16 };
enum class AmaxRule : uint8_t { max, most_recent };
enum class CacheFormat : uint8_t { bf16, fp8 };
enum class Recalibrate : uint8_t { train, prompts };

// Whole-tensor scaling of forward activations. Weights are always scaled from their current values, gradients
// too.
struct PerTensorRules {
    Scaling scaling = Scaling::delayed;
    int64_t history = 16;           // steps of amax kept
    int64_t margin = 0;             // scale = fmax * 2^-margin / amax
    AmaxRule amax = AmaxRule::max;  // over the history
    double static_scale = 1.0;      // Scaling::fixed: stored scale, value = code * static_scale
    bool operator==(const PerTensorRules&) const = default;
};

// Linear layers that stay BF16 in rollout and training.
struct HighPrecisionRules {
    int64_t first_layers = 0, last_layers = 0;
    std::vector<std::string> modules;  // globs over module names
    bool operator==(const HighPrecisionRules&) const = default;
};

struct KvCacheRules {
    CacheFormat format = CacheFormat::bf16;
    Recalibrate recalibrate = Recalibrate::train;
    double margin = 1.05;  // new scale = amax * margin / fmax
    double max_saturated =
        0.01;  // share of one layer's values; above it the layer's cache becomes BF16; 0: never
    bool operator==(const KvCacheRules&) const = default;
};

struct PrecisionRules {
    PrecisionMode recipe = PrecisionMode::blockwise;
    bool pow2_scales = false;
    ScaleRule scale_rule = ScaleRule::te;  // vllm: rollout side only
    PerTensorRules per_tensor;
    BackwardFormat backward = BackwardFormat::e4m3;
    HighPrecisionRules bf16;
    KvCacheRules kv_cache;
    CacheFormat attention = CacheFormat::bf16;  // fp8: Q and P are quantized too
    bool operator==(const PrecisionRules&) const = default;
};

// The operands of a linear layer's GEMMs: fprop X W^T, dgrad dY W, wgrad dY^T X. Each spec holds for both
// orientations: 1D blocks run along the K of the GEMM at hand; 128x128 weight codes are transposed.
struct LinearPrecision {
    QuantSpec weight, activation, gradient;
    bool quantized() const { return weight.quantized(); }
    bool backward_quantized() const { return gradient.quantized(); }
    bool operator==(const LinearPrecision&) const = default;
};

struct LinearModule {
    std::string name;
    int64_t layer = -1;  // -1: outside the stack of layers
};

struct PrecisionEntry {
    LinearModule module;
    LinearPrecision precision;
    std::string reason;  // "blockwise", "bf16: first_layers 1", "bf16: modules *.down_proj"
};

// The table and the rules that belong to no single layer.
class PrecisionTable {
  public:
    PrecisionTable() = default;
    PrecisionTable(const PrecisionRules& rules, const std::vector<LinearModule>& modules, int64_t layers);

    const std::vector<PrecisionEntry>& entries() const { return entries_; }
    const PrecisionRules& rules() const { return rules_; }
    // Asking for a module that is not in the table is a defect.
    const LinearPrecision& at(const std::string& module) const;
    // What activations outside the linear layers are stored in: f32 in `fp32`, else bf16.
    DType compute_type() const { return rules_.recipe == PrecisionMode::fp32 ? DType::f32 : DType::bf16; }
    // What the KV cache stores: e4m3, bf16, or f32 in `fp32`.
    DType cache_type() const;

  private:
    PrecisionRules rules_;
    std::vector<PrecisionEntry> entries_;
};

// What a linear layer does under the rules when no `bf16` rule names it.
LinearPrecision linear_precision(const PrecisionRules& rules);

struct Exactness {
    bool exact = true;
    std::string reason;  // "not exact, because ..."; empty when exact
};
Exactness exactness(const PrecisionTable& train, const PrecisionTable& rollout);

}  // namespace fp8rl
