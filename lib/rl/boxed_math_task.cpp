// Mathematics with the answer in a box. A gold answer may itself be a worked solution with a box in it.
#include "core/error.h"
#include "rl/boxed.h"
#include "rl/dataset.h"
#include "rl/families.h"

namespace fp8rl::rl {

namespace {

Row read_row(const Json& json, const TaskOptions& options) {
    Row row = read_question_and_answer(json, options);
    if (!json.has("solution"))
        row.solution = last_box(row.answer) ? row.answer : "\\boxed{" + row.answer + "}";
    if (auto box = last_box(row.answer)) row.answer = *box;
    if (canonical_math(row.answer).empty()) refuse(json.where(), ": the answer is empty");
    return row;
}

class BoxedMathTask : public DatasetTask {
  public:
    explicit BoxedMathTask(const TaskOptions& options)
        : DatasetTask(options, [&](const Json& json) { return read_row(json, options); }) {}
    std::string_view name() const override { return "boxed_math"; }
    std::string final_answer(std::string_view completion) const override {
        auto box = last_box(completion);
        return box ? canonical_math(*box) : "";
    }

  protected:
    bool correct(const Problem& problem, std::string_view completion) const override {
        return final_answer(completion) == canonical_math(problem.answer);
    }
};

}  // namespace

std::unique_ptr<Task> make_boxed_math_task(const TaskOptions& options) {
    return std::make_unique<BoxedMathTask>(options);
}

}  // namespace fp8rl::rl
