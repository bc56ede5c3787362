// The completion must be the answer, apart from white space around it.
#include "core/text.h"
#include "rl/dataset.h"
#include "rl/families.h"

namespace fp8rl::rl {

namespace {

class ExactMatchTask : public DatasetTask {
  public:
    explicit ExactMatchTask(const TaskOptions& options)
        : DatasetTask(options, [&](const Json& json) { return read_question_and_answer(json, options); }) {}
    std::string_view name() const override { return "exact_match"; }
    std::string final_answer(std::string_view completion) const override {
        return std::string(text::trim(completion));
    }

  protected:
    bool correct(const Problem& problem, std::string_view completion) const override {
        return text::trim(completion) == text::trim(problem.answer);
    }
};

}  // namespace

std::unique_ptr<Task> make_exact_match_task(const TaskOptions& options) {
    return std::make_unique<ExactMatchTask>(options);
}

}  // namespace fp8rl::rl
