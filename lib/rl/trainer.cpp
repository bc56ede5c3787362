#include "rl/trainer.h"

#include <algorithm>
#include <cmath>

#include "recipe/load.h"
#include "rl/report.h"
#include "rl/settings.h"
#include "rollout/calibration.h"
#include "run/log.h"
#include "run/signals.h"

namespace fp8rl::rl {

using run::monotonic_seconds;

Trainer::Trainer(Session& session, run::RunFolder& folder, run::MetricsWriter& metrics,
                 run::Progress& progress, const run::TimeLimit& limit, TrainerHooks hooks)
    : session_(session),
      recipe_(session.recipe()),
      folder_(folder),
      metrics_(metrics),
      progress_(progress),
      limit_(limit),
      hooks_(std::move(hooks)),
      checkpoints_(folder.path(), recipe_.checkpoint.keep),
      completions_(folder.completions_path()),
      updater_(session.model(), session.reference(), session.phase(), session.scratch()),
      optimizer_(session.model(), optimizer_settings(recipe_)) {}

int64_t Trainer::total_steps() const {
    return recipe_.train.steps + (recipe_.algorithm.name == AlgorithmName::sft ? 0 : recipe_.warmup.steps);
}

Trainer::Phase Trainer::phase() const {
    if (recipe_.algorithm.name == AlgorithmName::sft) return Phase::supervised;
    return state_.step < recipe_.warmup.steps ? Phase::warmup : Phase::policy;
}

void Trainer::resume() {
    auto found = checkpoints_.find_resume();
    for (const auto& m : found.messages) run::log::warn(m);
    state_ = restore(session_.model(), found.reader);
    if (session_.reference()) restore_reference(*session_.reference(), found.reader);
    folder_.rewind_to(state_.step);
    saved_step_ = state_.step;
    run::log::info(cat("resumed from ", found.reader.folder()));
}

TrainResult Trainer::run() {
    const double start = monotonic_seconds() - state_.seconds;
    double slowest_step = 0;
    progress_.begin("training", total_steps(), state_.step);
    begin_phase();
    if (state_.step == 0) calibrate_first();
    TrainResult result;
    while (state_.step < total_steps()) {
        const double step_start = monotonic_seconds();
        if (state_.step == recipe_.warmup.steps) begin_phase();
        const Phase now = phase();
        const bool first_of_phase =
            now != Phase::warmup && state_.step == total_steps() - recipe_.train.steps;
        if (first_of_phase && recipe_.validation.at_start) {
            run::Record record;
            record.set("step", state_.step + 1).set("phase", "validation");
            validate(record);
            state_.first_accuracy = state_.last_accuracy;
            metrics_.write(record);
        }
        run::Record record;
        record.set("step", state_.step + 1)
            .set("phase", now == Phase::policy   ? "rl"
                          : now == Phase::warmup ? "warmup"
                                                 : "sft");
        // A validation's quantization events belong to no step (and are not part of a checkpoint).
        session_.model().take_counts();
        if (now == Phase::policy)
            policy_step(record);
        else
            supervised_step(record);
        ++state_.step;
        close_step(record);

        const bool last = state_.step == total_steps();
        const int64_t done = state_.step - (total_steps() - recipe_.train.steps);
        if (done > 0 && ((recipe_.validation.every > 0 && done % recipe_.validation.every == 0) ||
                         (last && recipe_.validation.at_end))) {
            validate(record);
            if (state_.last_accuracy > state_.best_accuracy) {
                state_.best_accuracy = state_.last_accuracy;
                state_.best_step = state_.step;
                new_best_ = recipe_.checkpoint.keep_best;
            }
        }
        state_.seconds = monotonic_seconds() - start;
        record.set("timing/total_step_time", monotonic_seconds() - step_start);
        record.set("timing/elapsed", state_.seconds);
        const double left = progress_.seconds_left();
        if (left >= 0) record.set("timing/left", left);
        metrics_.write(record);
        progress_.update(state_.step);
        slowest_step = std::max(slowest_step, monotonic_seconds() - step_start);

        if (limit_.reached(monotonic_seconds(), slowest_step)) run::request_stop(run::Stop::time_limit);
        const bool stop = run::stop_requested() != run::Stop::none && !last;
        if (last || stop || new_best_ ||
            (recipe_.checkpoint.every > 0 && state_.step % recipe_.checkpoint.every == 0))
            save(new_best_);
        if (hooks_.after_step) hooks_.after_step(state_.step);
        if (stop) {
            result.finished = false;
            result.stop_reason = run::describe(run::stop_requested());
            break;
        }
    }
    progress_.end();
    result.state = state_;
    return result;
}

void Trainer::begin_phase() {
    const bool warmup = phase() == Phase::warmup;
    optimizer_.configure(warmup ? warmup_settings(recipe_) : optimizer_settings(recipe_));
    // Each phase has moments of its own: those of the warm-up's loss would mislead the first RL steps. A run
    // that resumes inside a phase goes on with the checkpoint's.
    if (state_.step == 0 || (!warmup && state_.step == recipe_.warmup.steps))
        optimizer_.restart();
    else
        optimizer_.set_updates(state_.updates);
    if (session_.reference() && !warmup) freeze_reference();
}

void Trainer::freeze_reference() {
    Model& reference = *session_.reference();
    if (recipe_.warmup.steps > 0 && state_.step == recipe_.warmup.steps) {
        // The KL term holds the policy near where RL begins, and that is after the warm-up.
        session_.model().params().visit(
            [&](Param& p) { session_.backend().copy(reference.params().find(p.name)->master, p.master); });
        reference.prepare();
    }
    // Always on the same problems: a resumed run must find the same scales.
    const auto prompts = prompts_from(0, recipe_.rollout.prompts);
    const std::vector<std::span<const int32_t>> views(prompts.begin(), prompts.end());
    log_fallbacks(calibrate(reference, session_.scratch(), views, recipe_.train.micro_tokens).fallbacks);
}

std::vector<std::vector<int32_t>> Trainer::prompts_from(uint64_t problem, int64_t count) const {
    std::vector<std::vector<int32_t>> prompts;
    for (uint64_t i = 0; i < static_cast<uint64_t>(count); ++i) {
        auto ids = session_.encoder().prompt(session_.task().train(problem + i));
        if (static_cast<int64_t>(ids.size()) <= session_.plan().max_prompt_tokens)
            prompts.push_back(std::move(ids));
    }
    return prompts;
}

void Trainer::calibrate_first() {
    const auto prompts =
        prompts_from(state_.next_problem, phase() == Phase::policy   ? recipe_.rollout.prompts
                                          : phase() == Phase::warmup ? recipe_.warmup.batch
                                                                     : recipe_.algorithm.batch);
    const std::vector<std::span<const int32_t>> views(prompts.begin(), prompts.end());
    log_fallbacks(
        calibrate(session_.model(), session_.scratch(), views, recipe_.train.micro_tokens).fallbacks);
}

void Trainer::log_fallbacks(const std::vector<KvFallback>& fallbacks) const {
    for (const auto& f : fallbacks)
        run::log::warn(cat("after step ", state_.step, ": layer ", f.layer, ", ", f.which, ": ",
                           f.counts.saturated, " of ", f.counts.values,
                           " values saturated; its KV cache is BF16 from now on"));
}

RolloutSettings Trainer::rollout_settings() const {
    RolloutSettings s;
    s.prompts = recipe_.rollout.prompts;
    s.samples = recipe_.rollout.samples;
    s.max_prompt_tokens = session_.plan().max_prompt_tokens;
    s.sampling = session_.rollout_sampling();
    s.advantage = advantage_config(recipe_);
    s.refill_equal_groups = recipe_.algorithm.refill_equal_groups;
    s.refill_tries = recipe_.algorithm.refill_tries;
    s.mask_truncated = recipe_.algorithm.mask_truncated;
    s.shuffle_rewards = recipe_.task.shuffle_rewards;
    s.seed = recipe_.seed;
    return s;
}

void Trainer::supervised_step(run::Record& record) {
    const int64_t batch = phase() == Phase::warmup ? recipe_.warmup.batch : recipe_.algorithm.batch;
    std::vector<Sample> samples;
    for (int64_t left_out = 0; static_cast<int64_t>(samples.size()) < batch;) {
        Problem p = session_.task().train(state_.next_problem++);
        Sample s;
        s.id = p.id;
        s.tokens = session_.encoder().prompt(p);
        s.prompt_tokens = static_cast<int32_t>(s.tokens.size());
        auto solution = session_.encoder().solution(p);
        s.tokens.insert(s.tokens.end(), solution.begin(), solution.end());
        if (s.prompt_tokens > session_.plan().max_prompt_tokens ||
            static_cast<int64_t>(s.tokens.size()) >
                std::min(recipe_.train.micro_tokens, session_.plan().spec.max_position)) {
            if (++left_out > 10000)
                refuse("10,000 problems in a row do not fit; the last has a prompt of ", s.prompt_tokens,
                       " tokens (at most ", session_.plan().max_prompt_tokens, ") and with its solution ",
                       s.tokens.size(), " (at most the model's ", session_.plan().spec.max_position,
                       " positions and train.micro_tokens ", recipe_.train.micro_tokens, ")");
            continue;
        }
        samples.push_back(std::move(s));
    }
    learn(samples, update_settings(recipe_, true, true), 1, record);
}

void Trainer::policy_step(run::Record& record) {
    const int64_t step = state_.step + 1;
    if (recipe_.precision.train.kv_cache.recalibrate == Recalibrate::prompts) recalibrate_on_prompts(record);
    const RolloutSettings settings = rollout_settings();
    Rollouts rollouts;
    {
        Session::Rollout stage(session_);
        RolloutStage rollout(session_.task(), session_.encoder(), stage.engine());
        rollouts =
            rollout.run(settings, static_cast<uint32_t>(step), state_.next_problem,
                        [&](size_t done, size_t of) { progress_.note(cat("rollout ", done, "/", of)); });
    }
    std::vector<Sample> samples = rollouts.samples(settings);
    report_rollouts(record, rollouts);
    log_completions(rollouts);
    for (const auto& e : rollouts.episodes) state_.generated_tokens += static_cast<double>(e.tokens.size());
    if (hooks_.after_rollout) hooks_.after_rollout(step, session_, samples);
    learn(samples, update_settings(recipe_, false, session_.plan().exactness.exact),
          recipe_.algorithm.updates_per_step, record);
}

void Trainer::learn(std::vector<Sample>& samples, const UpdateSettings& settings, int64_t updates,
                    run::Record& record) {
    const double start = monotonic_seconds();
    const int64_t step = state_.step + 1;
    const int64_t schedule_step = phase() == Phase::policy ? state_.step - recipe_.warmup.steps : state_.step;
    for (int64_t u = 0; u < updates; ++u) {
        progress_.note(cat("update ", u + 1, "/", updates));
        PassReport pass = updater_.accumulate(samples, settings, step, u == 0);
        state_.trained_tokens += static_cast<double>(pass.rows_backward);
        report_pass(record, pass, settings, u == 0);
        if (u == 0 && !settings.supervised) {
            state_.compared_tokens += pass.agreement.tokens;
            state_.max_mismatch = std::max(state_.max_mismatch, pass.agreement.max_abs);
        }
        if (!pass.has_gradient()) {
            // Every group taught the same: a momentum step without a gradient would only drift.
            record.set("update_skipped", "no gradient");
            break;
        }
        UpdateReport update = optimizer_.update(schedule_step);
        record.set("grad_norm", update.grad_norm).set("lr", update.lr);
        if (!update.applied) {
            record.set("update_skipped", "not finite");
            run::log::warn(cat("step ", step, ": the gradient is not finite; update skipped"));
        }
    }
    state_.updates = optimizer_.updates();
    record.set("timing/policy_training", monotonic_seconds() - start);
}

void Trainer::close_step(run::Record& record) {
    const double start = monotonic_seconds();
    report_quantization(record, session_.model());
    log_fallbacks(session_.model().begin_step());
    const char* key = "timing/recompute_kv_scales";
    record.set(key, monotonic_seconds() - start + (record.find(key) ? record.number(key) : 0.0));
}

void Trainer::recalibrate_on_prompts(run::Record& record) {
    const double start = monotonic_seconds();
    const auto prompts = prompts_from(state_.next_problem, recipe_.rollout.prompts);
    const std::vector<std::span<const int32_t>> views(prompts.begin(), prompts.end());
    log_fallbacks(
        recalibrate(session_.model(), session_.scratch(), views, recipe_.train.micro_tokens).fallbacks);
    record.set("timing/recompute_kv_scales", monotonic_seconds() - start);
}

void Trainer::validate(run::Record& record) {
    EvaluationSettings s;
    s.problems = session_.validation_problems();
    s.samples = recipe_.validation.samples;
    s.max_prompt_tokens = session_.plan().max_prompt_tokens;
    s.sampling = session_.validation_sampling();
    Session::Rollout stage(session_);
    Evaluation e =
        evaluate(session_.task(), session_.encoder(), stage.engine(), s, static_cast<uint32_t>(state_.step),
                 [&](size_t done, size_t of) { progress_.note(cat("validation ", done, "/", of)); });
    report_evaluation(record, e);
    for (size_t i = 0; i < e.lines.size() && static_cast<int64_t>(i) < recipe_.rollout.log_completions; ++i) {
        completions_.write(completion_of(e.lines[i], static_cast<int64_t>(record.number("step"))));
    }
    state_.last_accuracy = e.accuracy.mean;
}

void Trainer::log_completions(const Rollouts& rollouts) {
    const auto n =
        std::min<size_t>(rollouts.episodes.size(), static_cast<size_t>(recipe_.rollout.log_completions));
    for (size_t i = 0; i < n; ++i) {
        const Problem& p = rollouts.problems[i / static_cast<size_t>(recipe_.rollout.samples)];
        completions_.write({.step = state_.step + 1,
                            .phase = "train",
                            .prompt = session_.encoder().text(p),
                            .completion = rollouts.texts[i],
                            .answer = p.answer,
                            .reward = rollouts.rewards[i],
                            .tokens = static_cast<int64_t>(rollouts.episodes[i].tokens.size()),
                            .finish = name_of(rollouts.episodes[i].finish)});
    }
}

void Trainer::save(bool best) {
    if (saved_step_ == state_.step) return;
    progress_.note("checkpoint");
    metrics_.sync();
    const bool moved = session_.reference() && recipe_.warmup.steps > 0;
    checkpoints_.save(
        snapshot(session_.model(), moved ? session_.reference() : nullptr, state_, to_yaml(recipe_)), best);
    saved_step_ = state_.step;
    new_best_ = false;
}

}  // namespace fp8rl::rl
