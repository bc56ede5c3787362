#include "rl/evaluate.h"

#include "rl/rollouts.h"
#include "run/time_limit.h"

namespace fp8rl::rl {

double Evaluation::pass_at(int64_t k) const {
    double sum = 0;
    for (int64_t c : correct) sum += pass_at_k(samples, c, k);
    return correct.empty() ? 0 : sum / static_cast<double>(correct.size());
}

Evaluation evaluate(Task& task, const PromptEncoder& encoder, Engine& engine,
                    const EvaluationSettings& settings, uint32_t step,
                    const std::function<void(size_t, size_t)>& progress) {
    // Training's steps stay below this bit: the two never share a random number.
    constexpr uint32_t validation_steps = 0x80000000u;
    const double start = run::monotonic_seconds();
    Evaluation e;
    e.samples = settings.samples;
    std::vector<Problem> problems;
    std::vector<std::vector<int32_t>> prompts;
    for (int64_t i = 0; i < settings.problems; ++i) {
        Problem p = task.validation(i);
        auto ids = encoder.prompt(p);
        if (static_cast<int64_t>(ids.size()) > settings.max_prompt_tokens) {
            ++e.left_out;
            continue;
        }
        problems.push_back(std::move(p));
        prompts.push_back(std::move(ids));
    }
    if (problems.empty())
        refuse("no validation problem has a prompt of at most ", settings.max_prompt_tokens, " tokens");
    std::vector<Request> requests;
    for (size_t p = 0; p < prompts.size(); ++p)
        for (int32_t s = 0; s < settings.samples; ++s)
            requests.push_back({static_cast<int32_t>(p), s, prompts[p]});
    size_t done = 0;
    RolloutCallbacks callbacks;
    if (progress) callbacks.on_finish = [&](size_t, const Episode&) { progress(++done, requests.size()); };
    auto episodes = engine.generate(requests, settings.sampling, step | validation_steps, callbacks);

    std::vector<std::string> texts;
    for (const auto& x : episodes) texts.push_back(completion_text(encoder.tokenizer(), x));
    const auto per = static_cast<size_t>(settings.samples);
    std::vector<Completion> completions;
    for (size_t i = 0; i < episodes.size(); ++i)
        completions.push_back({&problems[i / per], texts[i], episodes[i].finish == Finish::stop});
    auto rewards = task.rewards(completions);

    std::vector<double> means;
    int64_t majority_right = 0, cut = 0;
    for (size_t p = 0; p < problems.size(); ++p) {
        double sum = 0;
        int64_t right = 0;
        std::vector<std::string> answers;
        for (size_t i = p * per; i < (p + 1) * per; ++i) {
            sum += rewards[i];
            right += rewards[i] == 1;
            answers.push_back(task.final_answer(texts[i]));
            e.tokens += static_cast<int64_t>(episodes[i].tokens.size());
            cut += episodes[i].finish == Finish::length;
            e.lines.push_back({p, encoder.text(problems[p]), texts[i], problems[p].answer, rewards[i],
                               static_cast<int64_t>(episodes[i].tokens.size()), episodes[i].finish});
        }
        means.push_back(sum / static_cast<double>(per));
        e.correct.push_back(right);
        int64_t winner = consensus(answers);
        majority_right += winner >= 0 && rewards[p * per + static_cast<size_t>(winner)] == 1;
    }
    e.accuracy = estimate(means);
    e.consensus = static_cast<double>(majority_right) / static_cast<double>(problems.size());
    e.mean_tokens = static_cast<double>(e.tokens) / static_cast<double>(episodes.size());
    e.truncated = static_cast<double>(cut) / static_cast<double>(episodes.size());
    e.seconds = run::monotonic_seconds() - start;
    return e;
}

}  // namespace fp8rl::rl
