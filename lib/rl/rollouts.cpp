#include "rl/rollouts.h"

#include <algorithm>

#include "core/text.h"
#include "rl/permutation.h"
#include "run/time_limit.h"

namespace fp8rl::rl {

std::string completion_text(const Tokenizer& tokenizer, const Episode& episode) {
    return tokenizer.decode(episode.tokens, false);
}

void RolloutStage::take(const RolloutSettings& settings, int64_t groups, uint64_t& next_problem,
                        Rollouts& into) const {
    int64_t refused = 0;
    for (int64_t g = 0; g < groups;) {
        Problem problem = task_.train(next_problem++);
        std::vector<int32_t> prompt = encoder_.prompt(problem);
        if (static_cast<int64_t>(prompt.size()) > settings.max_prompt_tokens) {
            ++into.long_prompts;
            if (++refused > 10000)
                refuse("task.max_prompt_tokens: ", settings.max_prompt_tokens,
                       " leaves out 10,000 problems in a row; the last one has ", prompt.size(), " tokens");
            continue;
        }
        into.problems.push_back(std::move(problem));
        into.prompts.push_back(std::move(prompt));
        ++g;
    }
}

Rollouts RolloutStage::run(const RolloutSettings& settings, uint32_t step, uint64_t& next_problem,
                           const std::function<void(size_t, size_t)>& progress) {
    Rollouts kept;
    kept.generations = 0;
    const auto per_group = static_cast<size_t>(settings.samples);
    // The prompt's place among all prompts of the step keys its random numbers, so refilled groups draw
    // afresh.
    int32_t prompt_number = 0;
    while (static_cast<int64_t>(kept.problems.size()) < settings.prompts) {
        if (kept.generations >= std::max<int64_t>(1, settings.refill_tries))
            refuse("algorithm.refill_tries: after ", kept.generations, " rollouts of step ", step, " only ",
                   kept.problems.size(), " of ", settings.prompts, " groups have unequal rewards");
        Rollouts r;
        take(settings, settings.prompts - static_cast<int64_t>(kept.problems.size()), next_problem, r);
        std::vector<Request> requests;
        for (const auto& prompt : r.prompts) {
            for (int32_t s = 0; s < settings.samples; ++s) requests.push_back({prompt_number, s, prompt});
            ++prompt_number;
        }
        size_t done = 0;
        RolloutCallbacks callbacks;
        if (progress)
            callbacks.on_finish = [&](size_t, const Episode&) { progress(++done, requests.size()); };
        double start = run::monotonic_seconds();
        r.episodes = engine_.generate(requests, settings.sampling, step, callbacks);
        double generated = run::monotonic_seconds();
        kept.generation_seconds += generated - start;
        kept.counters.add(engine_.counters());
        kept.counters.seconds += engine_.counters().seconds;
        std::vector<Completion> completions;
        for (const auto& e : r.episodes) r.texts.push_back(completion_text(encoder_.tokenizer(), e));
        for (size_t i = 0; i < r.episodes.size(); ++i)
            completions.push_back(
                {&r.problems[i / per_group], r.texts[i], r.episodes[i].finish == Finish::stop});
        r.rewards = task_.rewards(completions);
        kept.reward_seconds += run::monotonic_seconds() - generated;
        ++kept.generations;
        kept.long_prompts += r.long_prompts;
        for (size_t g = 0; g < r.problems.size(); ++g) {
            auto first = r.rewards.begin() + static_cast<std::ptrdiff_t>(g * per_group);
            bool equal = std::all_of(first, first + settings.samples, [&](double x) { return x == *first; });
            if (settings.refill_equal_groups && equal) {
                ++kept.discarded_groups;
                continue;
            }
            kept.problems.push_back(std::move(r.problems[g]));
            kept.prompts.push_back(std::move(r.prompts[g]));
            for (size_t i = g * per_group; i < (g + 1) * per_group; ++i) {
                kept.episodes.push_back(std::move(r.episodes[i]));
                kept.texts.push_back(std::move(r.texts[i]));
                kept.rewards.push_back(r.rewards[i]);
            }
        }
    }
    if (settings.shuffle_rewards) kept.rewards = shuffled_rewards(kept.rewards, settings.seed, step);
    std::vector<int64_t> groups{0};
    std::vector<std::string> ids;
    for (const auto& p : kept.problems)
        groups.push_back(groups.back() + settings.samples), ids.push_back(p.id);
    kept.advantages = group_advantages(kept.rewards, groups, ids, settings.advantage);
    return kept;
}

std::vector<Sample> Rollouts::samples(const RolloutSettings& settings) const {
    std::vector<Sample> out;
    out.reserve(episodes.size());
    for (size_t i = 0; i < episodes.size(); ++i) {
        const Episode& e = episodes[i];
        const size_t group = i / static_cast<size_t>(settings.samples);
        Sample s;
        s.id = cat("prompt ", problems[group].id, ", sample ", i % static_cast<size_t>(settings.samples));
        s.tokens = prompts[group];
        s.prompt_tokens = static_cast<int32_t>(s.tokens.size());
        s.tokens.insert(s.tokens.end(), e.tokens.begin(), e.tokens.end());
        s.rollout_logp = e.logp;
        s.cutoff = e.cutoff;
        s.advantage = advantages.values[i];
        s.masked = settings.mask_truncated && e.finish == Finish::length;
        out.push_back(std::move(s));
    }
    return out;
}

}  // namespace fp8rl::rl
