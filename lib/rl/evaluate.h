// rl/evaluate: accuracy on validation problems, with as many samples a problem as asked: mean reward,
// unbiased pass@k, cons@k. The draws have keys of their own, so an evaluation never touches what training
// samples.
#pragma once
#include <functional>
#include <vector>

#include "rl/prompt.h"
#include "rl/statistics.h"
#include "rollout/engine.h"

namespace fp8rl::rl {

struct EvaluationSettings {
    int64_t problems = 0;
    int64_t samples = 1;
    int64_t max_prompt_tokens = 0;
    SamplingConfig sampling;
};

struct Evaluation {
    Estimate accuracy;             // mean reward over problems
    std::vector<int64_t> correct;  // samples with reward 1, per problem
    int64_t samples = 1;
    double consensus = 0;  // cons@samples: share of problems whose majority answer is right
    double mean_tokens = 0;
    double truncated = 0;  // share of completions cut off
    int64_t left_out = 0;  // problems whose prompt is too long
    double seconds = 0;
    int64_t tokens = 0;  // completion tokens, all together

    double pass_at(int64_t k) const;  // k <= samples

    struct Line {
        size_t problem;
        std::string prompt, completion, answer;
        double reward;
        int64_t tokens;
        Finish finish;
    };
    std::vector<Line> lines;  // every completion
};

Evaluation evaluate(Task& task, const PromptEncoder& encoder, Engine& engine,
                    const EvaluationSettings& settings, uint32_t step,
                    const std::function<void(size_t done, size_t of)>& progress = {});

}  // namespace fp8rl::rl
