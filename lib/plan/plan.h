// plan/plan: everything a run will do, decided before it touches a device: the precision of every linear
// layer, whether rollout and training agree to the bit and why not, bytes of every arena, work of a step.
// Bytes and FLOPs come from running the very model on the shape backend with counting arenas; the run then
// uses these numbers and nothing else. Refused: sequences longer than the model's positions, precision rules
// that contradict, memory that cannot hold one sequence.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "backend/backend.h"
#include "core/parallel.h"
#include "nn/model.h"
#include "recipe/recipe.h"
#include "rollout/engine.h"

namespace fp8rl {

struct Plan {
    ModelSpec spec;
    ModelOptions options;
    Exactness exactness;
    EngineConfig engine;
    bool train = true;
    bool reference = false;  // a frozen copy for the KL term

    int64_t max_prompt_tokens = 0, max_sequence = 0;
    int64_t pages = 0;  // of the KV cache
    bool may_preempt = false;
    int64_t micro_tokens = 0;

    // Bytes.
    size_t weights = 0;  // masters, gradients, moments, prepared layouts, scales
    size_t reference_weights = 0;
    size_t kv_cache = 0, saved = 0;
    size_t phase = 0;  // the larger of the two: rollout and update share it
    size_t scratch = 0;
    size_t workspace = 0;  // inside the backend
    size_t total() const { return weights + reference_weights + phase + scratch + workspace; }

    // FLOPs of one step at full length: 2 per multiply-add.
    double rollout_flops = 0, training_flops = 0;
    double forward_flops_per_token = 0;  // short context
};

// Runs one update (forward, log-probs, backward) of sequences of these lengths; given by the room that knows
// how.
using UpdateShape = FunctionRef<void(Model& model, Model* reference, Arena& phase, Arena& scratch,
                                     std::span<const int64_t> lengths)>;

// `layouts` is a backend whose layout functions size weights, operands and pages; none of its memory is used.
// longest_prompt: tokens of the longest prompt that the task will give.
Plan make_plan(const Recipe& recipe, const ModelSpec& spec, int64_t longest_prompt, const Backend& layouts,
               bool train, UpdateShape update);

// For people: precision by layer, bytes, FLOPs, the verdict.
std::string plan_text(const Plan& plan);
// The verdict in one line.
std::string verdict_text(const Plan& plan);

}  // namespace fp8rl
