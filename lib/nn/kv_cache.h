// nn/kv_cache: the paged K and V of every layer, and the frozen scales of an FP8 cache. Which page belongs to
// whom is the scheduler's business (lib/rollout); training builds a throw-away cache of one layer in scratch
// with the same scales. Refused: maxima that are not finite; an FP8 cache without scales is a defect.
#pragma once
#include <vector>

#include "backend/backend.h"
#include "nn/spec.h"

namespace fp8rl {

struct KvPrecision {
    DType format = DType::bf16;  // f32 under recipe fp32, bf16, or e4m3
    bool fp8_attention = false;  // also Q and P
    float margin = 1.05f;        // scale = amax * margin / 448
    float max_saturated =
        1e-3f;  // share of a layer's K or V; above it the layer falls back to bf16; 0: never
};

// What the guard did at a step boundary.
struct KvFallback {
    int layer;
    const char* which;   // "K" or "V"
    QuantCounts counts;  // since the last recalibration
};

// Per layer and KV head: the scales in force and the maxima seen since the last recalibration. Lives in the
// weights arena.
class KvScales {
  public:
    KvScales(Backend& backend, const ModelSpec& spec, const KvPrecision& precision);
    void reserve(Arena& arena);
    // Scales from the maxima of the last observations (kept where nothing was observed); maxima restart at 0.
    void recalibrate();
    // Moves layers that saturated too often since the last recalibration to bf16. Call before recalibrate().
    std::vector<KvFallback> guard();
    // Downloads the counters into k_counts and v_counts.
    void read_counts();
    bool calibrated() const { return calibrated_; }

    // A layer's format: e4m3 unless the guard moved it to bf16.
    DType format(int layer) const { return formats_[layer]; }
    void fall_back(int layer) { formats_[layer] = DType::bf16; }

    Tensor k_scale, v_scale, q_scale;             // f32 [L, K] dequantization scales
    Tensor k_amax, v_amax, q_amax;                // f32 [L, K] running maxima
    std::vector<QuantCounts> k_counts, v_counts;  // [L], since the last recalibration

    const KvPrecision& precision() const { return precision_; }
    void mark_calibrated() { calibrated_ = true; }  // after a checkpoint restored the scales

    // Layer l over `pages` in the given format; `observe`: maxima and counts are reported here.
    KvLayer layer(int l, void* pages, DType format, bool observe) const;

    // Everything that a checkpoint must keep, in order: scales, maxima, counts, formats.
    std::vector<float> state() const;
    void restore(const std::vector<float>& values);
    Tensor counts;  // i64 [L, 6]: QuantCounts of K, then of V

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
    // Bytes of one page over all layers in the planned format. A layer that the guard moved to bf16 needs
    // twice as much: the cache then has fewer pages in the same bytes.
    static size_t page_bytes(const Backend& backend, const ModelSpec& spec, const KvPrecision& precision);
    void reserve(Arena& arena);
    KvLayer layer(int l, bool observe) const;  // observe: maxima and counts are reported into the scales
    void copy_page(int32_t dst, int32_t src);  // all layers
    int64_t pages() const { return pages_; }   // usable: fewer than planned where layers fell back

  private:
    Backend& backend_;
    ModelSpec spec_;
    KvScales& scales_;
    size_t bytes_;
    int64_t pages_;
    std::vector<DType> formats_;  // as the cache was built
    std::vector<void*> layers_;
};

}  // namespace fp8rl
