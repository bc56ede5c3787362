// rl/rollouts: the first half of a step: problems become completions, completions rewards, rewards
// advantages. Groups are `samples` completions of one prompt. With refill, groups of equal rewards are
// replaced by fresh prompts until enough groups teach something; what was thrown away is counted. Problems
// whose prompt is too long are left out and counted.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rl/advantage.h"
#include "rl/prompt.h"
#include "rl/update.h"
#include "rollout/engine.h"

namespace fp8rl::rl {

struct RolloutSettings {
    int64_t prompts = 8, samples = 8;
    int64_t max_prompt_tokens = 0;  // longer prompts are left out
    SamplingConfig sampling;
    AdvantageConfig advantage;
    bool refill_equal_groups = false;
    int64_t refill_tries = 10;
    bool mask_truncated = false;
    bool shuffle_rewards = false;
    uint64_t seed = 1;
};

// Everything one step's rollout produced. Sample i of group g stands at g * samples + i.
struct Rollouts {
    std::vector<Problem> problems;  // one per group
    std::vector<std::vector<int32_t>> prompts;
    std::vector<Episode> episodes;
    std::vector<std::string> texts;  // completions, without the stop token's text
    std::vector<double> rewards;
    Advantages advantages;
    RolloutCounters counters;
    int64_t discarded_groups = 0;  // equal rewards, refilled
    int64_t generations = 1;       // rollouts of this step
    int64_t long_prompts = 0;      // left out
    double generation_seconds = 0, reward_seconds = 0;

    std::vector<Sample> samples(const RolloutSettings& settings) const;
};

class RolloutStage {
  public:
    RolloutStage(Task& task, const PromptEncoder& encoder, Engine& engine)
        : task_(task), encoder_(encoder), engine_(engine) {}

    // `next_problem` is the position in the task's stream; it moves past every problem used or left out.
    Rollouts run(const RolloutSettings& settings, uint32_t step, uint64_t& next_problem,
                 const std::function<void(size_t done, size_t of)>& progress = {});

  private:
    void take(const RolloutSettings& settings, int64_t groups, uint64_t& next_problem, Rollouts& into) const;

    Task& task_;
    const PromptEncoder& encoder_;
    Engine& engine_;
};

// A completion as text: the stop token is left out, as are other special tokens.
std::string completion_text(const Tokenizer& tokenizer, const Episode& episode);

}  // namespace fp8rl::rl
