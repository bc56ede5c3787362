#include "rl/report.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace fp8rl::rl {

void report_rollouts(run::Record& record, const Rollouts& r) {
    const auto n = static_cast<double>(r.episodes.size());
    double reward = 0, tokens = 0, prompt = 0, cut = 0;
    size_t longest = 0;
    for (size_t i = 0; i < r.episodes.size(); ++i) {
        reward += r.rewards[i];
        tokens += static_cast<double>(r.episodes[i].tokens.size());
        prompt += static_cast<double>(r.episodes[i].prompt.size());
        cut += r.episodes[i].finish == Finish::length;
        longest = std::max(longest, r.episodes[i].tokens.size());
    }
    double most = 0, least = 0, sum = 0;
    for (float a : r.advantages.values)
        most = std::max<double>(most, a), least = std::min<double>(least, a), sum += a;
    const auto groups = static_cast<double>(r.advantages.groups);
    record.set("reward", reward / n)
        .set("mean_prompt_length", prompt / n)
        .set("mean_gen_tokens_per_sample", tokens / n)
        .set("max_gen_tokens_per_sample", static_cast<int64_t>(longest))
        .set("total_num_tokens", static_cast<int64_t>(prompt + tokens))
        .set("truncation_rate", cut / n)
        .set("natural_termination_rate", 1 - cut / n)
        .set("baseline_reward/pct_0", static_cast<double>(r.advantages.groups_all_zero) / groups)
        .set("baseline_reward/pct_1", static_cast<double>(r.advantages.groups_all_one) / groups)
        .set("baseline_reward/pct_mixed", 1 - static_cast<double>(r.advantages.equal_groups) / groups)
        .set("advantages/mean", sum / n)
        .set("advantages/max", most)
        .set("advantages/min", least)
        .set("zero_variance_groups", r.advantages.equal_groups)
        .set("dynamic_sampling_num_gen_batches", r.generations)
        .set("dynamic_sampling_num_discarded_groups", r.discarded_groups)
        .set("long_prompts_left_out", r.long_prompts)
        .set("rollout/prefill_tokens", r.counters.prefill_tokens)
        .set("rollout/shared_tokens", r.counters.shared_tokens)
        .set("rollout/preemptions", r.counters.preemptions)
        .set("rollout/max_pages", r.counters.max_pages)
        .set("timing/generation", r.generation_seconds)
        .set("timing/reward_calculation", r.reward_seconds)
        .set("timing/generation_tokens_per_sec", tokens / std::max(1e-9, r.generation_seconds));
}

void report_pass(run::Record& record, const PassReport& pass, const UpdateSettings& settings, bool first) {
    auto put = [&](std::string_view name, double value) { record.set(std::string(name), value); };
    pass.loss.metrics(put);
    record.set("samples_trained", pass.samples_trained)
        .set("micro_batches", pass.micro_batches)
        .set("rows_trained", pass.rows_backward);
    if (first && !settings.supervised) pass.agreement.metrics(put);
}

void report_evaluation(run::Record& record, const Evaluation& e) {
    record.set("validation/accuracy", e.accuracy.mean)
        .set("validation/accuracy_half_width", e.accuracy.half_width)
        .set("validation/problems", e.accuracy.count)
        .set("validation/avg_length", e.mean_tokens)
        .set("validation/truncation_rate", e.truncated)
        .set("timing/total_validation_time", e.seconds);
    if (e.samples > 1) {
        record.set(cat("validation/pass_", e.samples), e.pass_at(e.samples));
        record.set(cat("validation/cons_", e.samples), e.consensus);
    }
}

run::Completion completion_of(const Evaluation::Line& l, int64_t step) {
    return {.step = step,
            .phase = "validation",
            .prompt = l.prompt,
            .completion = l.completion,
            .answer = l.answer,
            .reward = l.reward,
            .tokens = l.tokens,
            .finish = name_of(l.finish)};
}

namespace {

double share(uint64_t part, uint64_t of) {
    return of ? static_cast<double>(part) / static_cast<double>(of) : 0.0;
}

void put_rates(run::Record& record, const std::string& role, const QuantCounts& all, double worst) {
    if (!all.values) return;
    record.set("quant/" + role + "/saturated", share(all.saturated, all.values))
        .set("quant/" + role + "/flushed", share(all.flushed, all.values))
        .set("quant/" + role + "/worst_layer_saturated", worst);
}

}  // namespace

void report_quantization(run::Record& record, Model& model) {
    struct Role {
        QuantCounts all;
        double worst = 0;
    };
    std::map<std::string, Role> roles;
    auto add = [&](const char* name, const QuantCounts& c) {
        Role& r = roles[name];
        r.all.add(c);
        r.worst = std::max(r.worst, share(c.saturated, c.values));
    };
    for (const auto& c : model.take_counts())
        add(c.role == fp8rl::Role::weight       ? "weight"
            : c.role == fp8rl::Role::activation ? "activation"
                                                : "gradient",
            c.counts);
    KvScales& kv = model.kv_scales();
    if (kv.precision().format == DType::e4m3) {
        kv.read_counts();
        for (const auto& c : kv.k_counts) add("kv_k", c);
        for (const auto& c : kv.v_counts) add("kv_v", c);
    }
    for (const auto& [name, role] : roles) put_rates(record, name, role.all, role.worst);
}

}  // namespace fp8rl::rl
