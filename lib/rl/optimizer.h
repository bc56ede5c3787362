// rl/optimizer: from gradients to new weights: global norm, clipping, AdamW on FP32 masters under a schedule,
// and one re-quantization. A gradient that is not finite never reaches a weight: the recipe says whether the
// run stops or the step is skipped and counted.
#pragma once
#include <cstdint>

#include "nn/model.h"

namespace fp8rl::rl {

enum class LrSchedule { constant, linear, cosine };
enum class NonFinite { stop, skip };

struct OptimizerSettings {
    double lr = 1e-6, weight_decay = 0, beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
    double grad_clip = 1.0;    // largest global norm; 0: no clipping
    int64_t warmup_steps = 0;  // linear rise from 0
    LrSchedule schedule = LrSchedule::constant;
    double final_fraction = 0.1;  // of lr, where linear and cosine end
    int64_t total_steps = 1;
    bool decay_norms = false;
    NonFinite on_nonfinite = NonFinite::stop;
};

// Learning rate of update `step`, counted from 0: rises over warmup_steps (the first update already moves),
// then follows the schedule down to final_fraction at the last step.
double learning_rate(const OptimizerSettings& s, int64_t step);

struct UpdateReport {
    double grad_norm = 0;
    double lr = 0;
    bool applied = true;  // false: the gradient was not finite and the step was skipped
};

class Optimizer {
  public:
    Optimizer(Model& model, const OptimizerSettings& settings) : model_(model), settings_(settings) {}

    // Consumes the gradients (they are zero afterwards). `schedule_step` picks the learning rate; several
    // updates of one step share it. Masters change and every weight is prepared again.
    UpdateReport update(int64_t schedule_step);

    // Updates done so far: the t of Adam's bias correction.
    int64_t updates() const { return updates_; }
    void set_updates(int64_t n) { updates_ = n; }
    void configure(const OptimizerSettings& settings) { settings_ = settings; }
    // Forgets moments and the count: a new phase begins.
    void restart();

  private:
    Model& model_;
    OptimizerSettings settings_;
    int64_t updates_ = 0;
};

}  // namespace fp8rl::rl
