#include "rl/task.h"

#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "rl/families.h"

namespace fp8rl::rl {

using Family = std::unique_ptr<Task> (*)(const TaskOptions&);
static constexpr std::pair<const char*, Family> families[] = {
    {"sort", make_sort_task},
    {"arithmetic", make_arithmetic_task},
    {"word_problems", make_word_problems_task},
    {"gsm8k", make_gsm8k_task},
    {"exact_match", make_exact_match_task},
    {"boxed_math", make_boxed_math_task},
    {"command", make_command_task},
};

std::vector<std::string> task_names() {
    std::vector<std::string> names;
    for (const auto& family : families) names.emplace_back(family.first);
    return names;
}

std::unique_ptr<Task> make_task(const TaskOptions& options) {
    if (options.prompt.find("{question}") == std::string::npos)
        refuse("task.prompt: {question} is missing in \"", options.prompt, "\"");
    if (options.validation_size < 0)
        refuse("task.validation_size: ", options.validation_size, "; at least 0");
    for (const auto& [name, make] : families)
        if (options.name == name) return make(options);
    refuse("task.name: \"", options.name, "\"; one of ", text::join(task_names(), ", "));
}

Problem make_problem(const TaskOptions& options, std::string id, const std::string& question,
                     std::string answer, std::string solution) {
    Problem p;
    p.id = std::move(id);
    p.answer = std::move(answer);
    p.solution = std::move(solution);
    const std::string mark = "{question}";
    const size_t at = options.prompt.find(mark);
    p.prompt = options.prompt.substr(0, at) + question + options.prompt.substr(at + mark.size());
    if (options.chat) {
        if (!options.system_prompt.empty()) p.messages.push_back({"system", options.system_prompt});
        p.messages.push_back({"user", std::exchange(p.prompt, "")});
    }
    return p;
}

std::vector<double> Task::rewards(std::span<const Completion> completions) {
    std::vector<double> out;
    out.reserve(completions.size());
    for (const Completion& c : completions)
        out.push_back((c.finished || reward_truncated_) && correct(*c.problem, c.text) ? 1.0 : 0.0);
    return out;
}

}  // namespace fp8rl::rl
