// rollout/calibration: packed observing passes.
#include "rollout/calibration.h"

#include <chrono>

namespace fp8rl {

static Calibration observe(Model& model, Arena& scratch, Prompts prompts, int64_t micro_tokens,
                           bool calibrate, const ReduceObservations& reduce) {
    auto begin = std::chrono::steady_clock::now();
    check(micro_tokens >= 1, "calibration: a pass holds at least one token");
    Calibration result;
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
            ++result.passes;
        }
        result.tokens += batch.rows();
        batch.clear();
    };
    for (auto prompt : prompts) {
        if (prompt.empty()) refuse("calibration: a prompt has no tokens");
        if (batch.rows() > 0 && batch.rows() + static_cast<int64_t>(prompt.size()) > micro_tokens) run();
        batch.add(prompt);
    }
    if (batch.rows() > 0) run();
    if (reduce) reduce();
    result.fallbacks = model.begin_step();
    result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return result;
}

Calibration calibrate(Model& model, Arena& scratch, Prompts prompts, int64_t micro_tokens,
                      const ReduceObservations& reduce) {
    return observe(model, scratch, prompts, micro_tokens, true, reduce);
}

Calibration recalibrate(Model& model, Arena& scratch, Prompts prompts, int64_t micro_tokens,
                        const ReduceObservations& reduce) {
    if (reduce) reduce();
    std::vector<KvFallback> earlier = model.kv_scales().guard();
    model.kv_scales().recalibrate();
    Calibration result = observe(model, scratch, prompts, micro_tokens, false, reduce);
    result.fallbacks.insert(result.fallbacks.begin(), earlier.begin(), earlier.end());
    return result;
}

}  // namespace fp8rl
