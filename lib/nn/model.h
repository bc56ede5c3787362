// nn/model: the decoder. One forward serves rollout, training and evaluation; backward stands beside it,
// module by module, without a tape. The network ends at hidden states: log-probs are Backend::token_logprob
// on head(). Refused by name: tensors missing, unknown or of another shape when loading; state of another
// model.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "nn/kv_cache.h"
#include "nn/param.h"
#include "nn/pass.h"
#include "nn/spec.h"
#include "quant/policy.h"

namespace fp8rl {

struct ModelOptions {
    PrecisionTable precision;
    PrecisionTable rollout_precision;  // used when differs_in_rollout
    bool differs_in_rollout = false;
    KvPrecision kv;
    DType act = DType::bf16;  // f32 under recipe fp32
    bool train = true;        // reserve gradients, moments and backward layouts
    DType moments = DType::f32;
    bool recompute_block = false;  // backward runs each block's forward again from its input
};

// Quantization events of one linear's role since the last take (saturation and underflow rates of every
// quantized role).
struct RoleCounts {
    std::string module;
    int layer;
    Role role;
    QuantCounts counts;
};

class Model {
  public:
    Model(Backend& backend, const ModelSpec& spec, const ModelOptions& options);
    ~Model();

    // Published names of the linear modules, with their layer: what precision rules are resolved against.
    struct LinearName {
        std::string name;  // "model.layers.3.mlp.down_proj"
        int layer;
    };
    static std::vector<LinearName> linear_modules(const ModelSpec& spec);

    void reserve(Arena& weights);  // masters, gradients, moments, prepared handles, scales
    // normal(0, std), residual projections by 1/sqrt(2 L), gains 1, biases 0
    void initialize(uint64_t seed, double std = 0.02);
    void load(const class GgufFile& file);         // Q/K rows un-permuted; a missing or odd tensor is refused
    void load(const class WeightSource& tensors);  // published names, f32 or bf16 (nn/load.h)
    void prepare();                                // re-quantize every weight from its master
    void zero_grad();

    // Hidden states after the final norm, act [N, C], in pass.scratch. With pass.saved everything backward
    // needs is kept.
    Tensor forward(Pass& pass);
    // dhidden act [N, C]. Adds to the gradients of all parameters below the head. Same pass (and saved) as
    // the forward.
    void backward(Pass& pass, Tensor dhidden);

    const Weight& head(bool in_rollout) const;
    Param& head_param();  // the embedding when tied
    Param& embedding();

    // Freezes delayed activation scales and KV scales for the step that begins, from what was observed since
    // the last call. Returns the layers whose FP8 cache the guard moved to bf16: to be logged loudly.
    std::vector<KvFallback> begin_step();
    // Before begin_step in a world of several ranks: maxima and counts of all ranks, in place.
    void reduce_observations(FunctionRef<void(std::span<float>)> max_over_ranks,
                             FunctionRef<void(std::span<double>)> sum_over_ranks);
    // All scales count as known though nothing was seen: for the plan, which runs shapes without values.
    void mark_calibrated();
    // Step-to-step state beside parameters: scale histories, KV scales, guard. Named f32 arrays in host
    // memory.
    struct State {
        std::string name;
        std::vector<float> values;
    };
    std::vector<State> state() const;
    void restore(const std::vector<State>& state);

    std::vector<RoleCounts> take_counts();

    ParamSet& params();
    const ParamSet& params() const;
    KvScales& kv_scales();
    const ModelSpec& spec() const;
    const ModelOptions& options() const;
    Backend& backend();

    // Bytes of Saved for n rows in s sequences, by running the same reservation on a counting arena.
    size_t saved_bytes(int64_t rows) const;

  private:
    void check_pass(const Pass& pass) const;
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace fp8rl
