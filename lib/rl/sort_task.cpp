// Digits to be put in order: a task small enough for a model built from scratch.
#include <algorithm>

#include "core/error.h"
#include "rl/families.h"
#include "rl/generated.h"

namespace fp8rl::rl {

namespace {

Exercise draw_digits(Random& random, int length) {
    Exercise e;
    for (int i = 0; i < length; ++i) e.answer += static_cast<char>('0' + random.integer(0, 9));
    e.question = e.answer + ">";
    std::sort(e.answer.begin(), e.answer.end());
    e.solution = e.answer;
    return e;
}

class SortTask : public GeneratedTask {
  public:
    explicit SortTask(const TaskOptions& options)
        : GeneratedTask(options, [n = options.length](Random& random) { return draw_digits(random, n); }) {}
    std::string_view name() const override { return "sort"; }
    std::string final_answer(std::string_view completion) const override { return std::string(completion); }

  protected:
    bool correct(const Problem& problem, std::string_view completion) const override {
        return completion == problem.answer;
    }
};

}  // namespace

std::unique_ptr<Task> make_sort_task(const TaskOptions& options) {
    if (options.length < 2 || options.length > 1000)
        refuse("task.length: ", options.length, "; between 2 and 1000 digits");
    return std::make_unique<SortTask>(options);
}

}  // namespace fp8rl::rl
