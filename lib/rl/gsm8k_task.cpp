// Grade-school word problems (Cobbe et al. 2021): `answer` is a worked solution that ends in "#### 72", with
// calculator notes <<48/2=24>> that are not part of its text.
#include "core/error.h"
#include "core/text.h"
#include "rl/boxed.h"
#include "rl/dataset.h"
#include "rl/families.h"
#include "rl/number.h"

namespace fp8rl::rl {

namespace {

constexpr std::string_view gold_mark = "####";

std::string without_notes(std::string_view s) {
    std::string out;
    for (size_t begin; (begin = s.find("<<")) != std::string_view::npos;) {
        size_t end = s.find(">>", begin);
        if (end == std::string_view::npos) break;
        out += s.substr(0, begin);
        s.remove_prefix(end + 2);
    }
    return out += s;
}

Row read_row(const Json& json, const TaskOptions& options) {
    Row row;
    row.question = json.at(options.question_key).as_string();
    const std::string& worked = json.at(options.answer_key).as_string();
    size_t mark = worked.rfind(gold_mark);
    if (mark != std::string::npos)
        row.answer = canonical_number(std::string_view(worked).substr(mark + gold_mark.size()));
    if (row.answer.empty())
        refuse(json.where(), ": ", options.answer_key, " must end in \"#### \" and a number");
    row.solution = without_notes(worked);
    return row;
}

class Gsm8kTask : public DatasetTask {
  public:
    explicit Gsm8kTask(const TaskOptions& options)
        : DatasetTask(options, [&](const Json& json) { return read_row(json, options); }) {}
    std::string_view name() const override { return "gsm8k"; }

    std::string final_answer(std::string_view completion) const override {
        if (size_t mark = completion.rfind(gold_mark); mark != std::string_view::npos)
            if (auto n = first_number(completion.substr(mark + gold_mark.size())); !n.empty()) return n;
        if (auto box = last_box(completion))
            if (auto n = last_number(*box); !n.empty()) return n;
        return last_number(completion);
    }

  protected:
    bool correct(const Problem& problem, std::string_view completion) const override {
        return final_answer(completion) == problem.answer;
    }
};

}  // namespace

std::unique_ptr<Task> make_gsm8k_task(const TaskOptions& options) {
    return std::make_unique<Gsm8kTask>(options);
}

}  // namespace fp8rl::rl
