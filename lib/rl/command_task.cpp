// Rewards from an external program. It is started at the first batch and kept running; every batch is one
// exchange of lines (rl/command_protocol) within the time limit. Any failure ends the run with the reason: a
// wrong reward is worse than none.
#include <optional>

#include "core/error.h"
#include "core/text.h"
#include "rl/command_protocol.h"
#include "rl/dataset.h"
#include "rl/families.h"
#include "rl/subprocess.h"

namespace fp8rl::rl {

namespace {

Row read_row(const Json& json, const TaskOptions& options) {
    // The program may know the answer by itself.
    if (json.has(options.answer_key)) return read_question_and_answer(json, options);
    Row row;
    row.question = json.at(options.question_key).as_string();
    row.solution = json.string_or("solution", "");
    return row;
}

class CommandTask : public DatasetTask {
  public:
    explicit CommandTask(const TaskOptions& options)
        : DatasetTask(options, [&](const Json& json) { return read_row(json, options); }),
          argv_(options.command),
          time_limit_(options.time_limit) {}
    std::string_view name() const override { return "command"; }
    std::vector<double> rewards(std::span<const Completion> completions) override;
    std::string final_answer(std::string_view completion) const override {
        return std::string(text::trim(completion));
    }

  protected:
    bool correct(const Problem&, std::string_view) const override { defect("command: the program decides"); }

  private:
    [[noreturn]] void fail(Subprocess::Outcome outcome, size_t answered, size_t asked);
    std::string who() const { return "reward program " + argv_[0]; }

    std::vector<std::string> argv_;
    double time_limit_;  // seconds for one batch
    std::optional<Subprocess> program_;
    int64_t lines_ = 0;  // requests so far: the next id
};

std::vector<double> CommandTask::rewards(std::span<const Completion> completions) {
    std::vector<double> out;
    if (completions.empty()) return out;
    if (!program_) program_.emplace(argv_);
    std::string requests;
    for (size_t i = 0; i < completions.size(); ++i)
        requests += request_line(lines_ + static_cast<int64_t>(i), completions[i]);
    auto reply = program_->exchange(requests, completions.size(), std::chrono::duration<double>(time_limit_));
    if (reply.outcome != Subprocess::Outcome::complete)
        fail(reply.outcome, reply.lines.size(), completions.size());
    for (const std::string& line : reply.lines) {
        out.push_back(read_reward(line, lines_, cat(who(), ", output line ", lines_ + 1)));
        ++lines_;
    }
    if (program_->has_unread_output())
        refuse(who(), ": more than one line per completion; ", lines_, " were asked for");
    return out;
}

void CommandTask::fail(Subprocess::Outcome outcome, size_t answered, size_t asked) {
    const std::string progress = cat(answered, " of ", asked, " completions");
    using enum Subprocess::Outcome;
    if (outcome == timed_out) {
        program_->kill();
        program_.reset();
        refuse(who(), ": time limit of ", time_limit_, " s passed after ", progress,
               " (task.command.timeout)");
    }
    if (outcome == line_too_long) {
        program_->kill();
        program_.reset();
        refuse(who(), ": an output line longer than ", Subprocess::longest_line, " bytes after ", progress);
    }
    std::string ending = program_->end(std::chrono::seconds(1));
    program_.reset();
    refuse(who(), " ended (", ending, ") after ", progress);
}

}  // namespace

std::unique_ptr<Task> make_command_task(const TaskOptions& options) {
    if (options.command.empty() || options.command[0].empty())
        refuse("task.command: the program and its arguments are needed, as a list");
    if (!(options.time_limit > 0)) refuse("task.command.timeout: ", options.time_limit, " s; above 0");
    return std::make_unique<CommandTask>(options);
}

}  // namespace fp8rl::rl
