// rl/state: a run between two steps, as a checkpoint holds it: masters, moments, scales and histories,
// counters, data position. Random numbers have no state (they are keyed by step), so this is all that a
// resumed run needs to end with the weights of an uninterrupted one.
#pragma once
#include <cstdint>
#include <string>

#include "nn/model.h"
#include "run/checkpoint.h"

namespace fp8rl::rl {

struct RunState {
    int64_t step = 0;                                                    // steps done, warm-up included
    int64_t updates = 0;                                                 // of the phase's optimizer
    uint64_t next_problem = 0;                                           // position in the task's stream
    double first_accuracy = -1, last_accuracy = -1, best_accuracy = -1;  // -1: not measured
    int64_t best_step = -1;
    double seconds = 0;  // of training so far, all processes
    double compared_tokens = 0, max_mismatch = 0;
    double generated_tokens = 0, trained_tokens = 0;
};

// `reference`: the frozen model of the KL term where it is no longer the run's source (after a warm-up), else
// null.
run::CheckpointData snapshot(const Model& model, const Model* reference, const RunState& state,
                             const std::string& recipe_yaml);

// Fills the model and returns the state. Refuses a checkpoint of another model by name. The weights are
// prepared again.
RunState restore(Model& model, run::CheckpointReader& reader);

// Fills the reference; false: the checkpoint holds none.
bool restore_reference(Model& reference, run::CheckpointReader& reader);

// Weights alone, for evaluation and generation.
void restore_weights(Model& model, run::CheckpointReader& reader);

}  // namespace fp8rl::rl
