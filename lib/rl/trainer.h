// rl/trainer: the loop. recipe -> plan -> model -> rollout -> rewards -> advantages -> loss -> backward ->
// update -> metrics; supervised steps (warm-up, `algorithm: {name: sft}`) are the same loop without the first
// half. It decides nothing about numerics or files: stages do the work, this says in which order.
#pragma once
#include <functional>
#include <string>

#include "rl/evaluate.h"
#include "rl/optimizer.h"
#include "rl/rollouts.h"
#include "rl/session.h"
#include "rl/state.h"
#include "run/metrics.h"
#include "run/progress.h"
#include "run/run_folder.h"
#include "run/time_limit.h"

namespace fp8rl::rl {

// For tests: called between rollout and training of a step, to show that a single changed bit is noticed.
struct TrainerHooks {
    std::function<void(int64_t step, Session& session, std::vector<Sample>& samples)> after_rollout;
    std::function<void(int64_t step)> after_step;
};

struct TrainResult {
    RunState state;
    bool finished = true;  // false: asked to stop; a checkpoint was saved
    std::string stop_reason;
};

class Trainer {
  public:
    Trainer(Session& session, run::RunFolder& folder, run::MetricsWriter& metrics, run::Progress& progress,
            const run::TimeLimit& limit, TrainerHooks hooks = {});

    // From the newest complete checkpoint of the folder instead of from the start.
    void resume();
    TrainResult run();

  private:
    enum class Phase { warmup, supervised, policy };
    Phase phase() const;
    int64_t total_steps() const;
    void begin_phase();
    void freeze_reference();
    void calibrate_first();
    std::vector<std::vector<int32_t>> prompts_from(uint64_t problem, int64_t count) const;
    void log_fallbacks(const std::vector<KvFallback>& fallbacks) const;
    void recalibrate_on_prompts(run::Record& record);
    void supervised_step(run::Record& record);
    void policy_step(run::Record& record);
    void learn(std::vector<Sample>& samples, const UpdateSettings& settings, int64_t updates,
               run::Record& record);
    void close_step(run::Record& record);
    void validate(run::Record& record);
    void log_completions(const Rollouts& rollouts);
    void save(bool best);
    RolloutSettings rollout_settings() const;

    Session& session_;
    const Recipe& recipe_;
    run::RunFolder& folder_;
    run::MetricsWriter& metrics_;
    run::Progress& progress_;
    run::TimeLimit limit_;
    TrainerHooks hooks_;
    run::Checkpoints checkpoints_;
    run::CompletionsWriter completions_;
    Updater updater_;
    Optimizer optimizer_;
    RunState state_;
    bool new_best_ = false;
    int64_t saved_step_ = -1;
};

}  // namespace fp8rl::rl
