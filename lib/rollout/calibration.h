// rollout/calibration: scales that a step freezes, found on prompts. Packed passes without a cache; nothing
// is sampled and nothing kept but maxima.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "nn/model.h"

namespace fp8rl {

// Token ids of whole prompts, at least one token each; giving one twice changes nothing.
using Prompts = std::span<const std::span<const int32_t>>;

struct Calibration {
    int64_t tokens = 0, passes = 0;
    double seconds = 0;
    std::vector<KvFallback> fallbacks;  // layers that the guard moved to BF16: to be logged loudly
};

// Runs before observations become scales: where several ranks share a run, Model::reduce_observations.
using ReduceObservations = std::function<void()>;

// Before the first rollout of all: the passes run with current scales and BF16 K and V, then the step begins
// with what they saw. A pass holds at most `micro_tokens` tokens, or one prompt that is longer; where current
// scales span a whole tensor (per_tensor), the scales found depend on what shares a pass.
Calibration calibrate(Model& model, Arena& scratch, Prompts prompts, int64_t micro_tokens,
                      const ReduceObservations& reduce = {});

// `recalibrate: prompts`: under the new weights, with the scales in force; KV maxima of the last training
// forward are dropped first, so that the next KV scales come from these prompts alone. Then the step begins.
Calibration recalibrate(Model& model, Arena& scratch, Prompts prompts, int64_t micro_tokens,
                        const ReduceObservations& reduce = {});

}  // namespace fp8rl
