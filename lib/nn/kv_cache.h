// nn/kv_cache: the paged K and V of every layer, and the frozen scales of an FP8 cache. Which page belongs to
// whom is the scheduler's business (lib/rollout); training builds a throw-away cache of one layer in scratch
// with the same scales.
#pragma once
#include <vector>

#include "backend/backend.h"
#include "nn/spec.h"

namespace fp8rl {

struct KvPrecision {
    DType format = DType::bf16;  // f32 under recipe fp32, bf16, or e4m3
    bool fp8_attention = false;  // also Q and P
    float margin = 1.05f;        // scale = amax * margin / 448
};

// Per layer and KV head: the scales in force and the maxima seen since the last recalibration. Lives in the
// weights arena.
class KvScales {
  public:
    KvScales(Backend& backend, const ModelSpec& spec, const KvPrecision& precision);
    void reserve(Arena& arena);
    // Scales from the maxima of the last observations (kept where nothing was observed); maxima restart at 0.
    void recalibrate();
    bool calibrated() const { return calibrated_; }

    // A layer's format: e4m3 unless the guard moved it to bf16.
    DType format(int layer) const { return formats_[layer]; }
    void fall_back(int layer) { formats_[layer] = DType::bf16; }

    Tensor k_scale, v_scale, q_scale;             // f32 [L, K] dequantization scales
    Tensor k_amax, v_amax, q_amax;                // f32 [L, K] running maxima
    std::vector<QuantCounts> k_counts, v_counts;  // [L], since the last recalibration

    const KvPrecision& precision() const { return precision_; }
    void mark_calibrated() { calibrated_ = true; }  // after a checkpoint restored the scales

  private:
    Backend& backend_;
    ModelSpec spec_;
    KvPrecision precision_;
    std::vector<DType> formats_;
    bool calibrated_ = false;
};

// Rollout's cache: `pages` pages for all layers, laid out [layer][page].
class KvCache {
  public:
    KvCache(Backend& backend, const ModelSpec& spec, KvScales& scales, int64_t pages);
    // Bytes of one page over all layers in the planned format (bf16 is reserved where the guard may fall
    // back).
    static size_t page_bytes(const Backend& backend, const ModelSpec& spec, const KvPrecision& precision);
    void reserve(Arena& arena);
    KvLayer layer(int l, bool observe) const;  // observe: maxima and counts are reported into the scales
    void copy_page(int32_t dst, int32_t src);  // all layers
    int64_t pages() const { return pages_; }

  private:
    Backend& backend_;
    ModelSpec spec_;
    KvScales& scales_;
    int64_t pages_;
    std::vector<void*> layers_;
};

}  // namespace fp8rl
