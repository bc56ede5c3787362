// rollout/calibration: packed observing passes.
#include "rollout/calibration.h"

#include <chrono>

namespace fp8rl {

static CalibrationCounters observe(Model& model, Arena& scratch, Prompts prompts, int64_t micro_tokens,
                                   bool calibrate) {
    auto begin = std::chrono::steady_clock::now();
    check(micro_tokens >= 1, "calibration: a pass holds at least one token");
    CalibrationCounters counters;
    PackedBatch batch;
    auto run = [&] {
        // The rollout's own tables observe too where they differ.
        for (int side = 0; side < (model.options().differs_in_rollout ? 2 : 1); ++side) {
            auto scope = scratch.scope();
            Pass pass{model.backend(), scratch, batch.ids, batch.positions, batch.sequences()};
            pass.in_rollout = side == 1;
            pass.observe = true;
            pass.calibrate = calibrate;
            model.forward(pass);
            ++counters.passes;
        }
        counters.tokens += batch.rows();
        batch.clear();
    };
    for (auto prompt : prompts) {
        if (prompt.empty()) refuse("calibration: a prompt has no tokens");
        if (batch.rows() > 0 && batch.rows() + static_cast<int64_t>(prompt.size()) > micro_tokens) run();
        batch.add(prompt);
    }
    if (batch.rows() > 0) run();
    model.begin_step();
    counters.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return counters;
}

CalibrationCounters calibrate(Model& model, Arena& scratch, Prompts prompts, int64_t micro_tokens) {
    return observe(model, scratch, prompts, micro_tokens, true);
}

CalibrationCounters recalibrate(Model& model, Arena& scratch, Prompts prompts, int64_t micro_tokens) {
    model.kv_scales().recalibrate();
    return observe(model, scratch, prompts, micro_tokens, false);
}

}  // namespace fp8rl
