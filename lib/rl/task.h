// rl/task: what the model is asked and how an answer is rewarded. A problem is a pure function of (seed,
// index), so any rank, order or resume sees the same ones; no validation problem is ever a training problem.
// Refuses an unknown name, a missing file and an impossible size.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fp8rl::rl {

struct Message {
    std::string role;  // system | user | assistant
    std::string content;
};

struct Problem {
    std::string id;                 // "train/17", "validation/3": names the problem in messages and files
    std::string prompt;             // raw text; used when there are no messages
    std::vector<Message> messages;  // a chat, rendered by the model's template with the generation prompt
    std::string answer;             // gold, as the reward reads it
    std::string solution;           // completion for supervised steps, without end-of-sequence; "" = none
};

struct Completion {
    const Problem* problem;
    std::string_view text;
    bool finished = true;  // ended by a stop id or string; false: cut off at the token limit
};

class Task {
  public:
    virtual ~Task() = default;
    virtual std::string_view name() const = 0;

    virtual Problem train(uint64_t index) const = 0;  // unbounded; files repeat in a new order every epoch
    virtual int64_t validation_size() const = 0;
    virtual Problem validation(int64_t index) const = 0;

    // One reward per completion, in order: 1 if correct(), else 0; a completion that was cut off gets 0
    // unless the task was told otherwise. Not const: a task may talk to a program. Called by one thread.
    virtual std::vector<double> rewards(std::span<const Completion> completions);
    // The final answer in a completion, normalised so that equal answers are equal text (cons@k); "" = none.
    virtual std::string final_answer(std::string_view completion) const = 0;
    // What a person should know before the run: rows dropped, sizes.
    virtual std::vector<std::string> notes() const { return {}; }

  protected:
    explicit Task(bool reward_truncated) : reward_truncated_(reward_truncated) {}
    virtual bool correct(const Problem& problem, std::string_view completion) const = 0;

  private:
    bool reward_truncated_;
};

enum class Operation { add, subtract, multiply, divide };

struct TaskOptions {
    std::string name;  // one of task_names()
    uint64_t seed = 1;
    int64_t validation_size = 200;  // files: 0 = all of the validation file

    bool chat = false;                  // problems come as messages, not as raw text
    std::string system_prompt;          // chat: the first message; "" = none
    std::string prompt = "{question}";  // the user message or raw prompt around the question
    bool reward_truncated = false;      // a completion cut off at the limit may still be right

    int length = 5;  // sort: digits
    std::vector<Operation> operations = {Operation::add,
                                         Operation::subtract};  // arithmetic: drawn per problem
    int digits = 2;    // arithmetic, word_problems: at most this many per number
    int operands = 2;  // arithmetic
    int steps = 0;     // word_problems: 1, 2, or 0 for both

    // gsm8k, exact_match, boxed_math, command: JSON lines. Without a validation file, rows of the train file
    // are set aside.
    std::string train_file, validation_file;
    std::string question_key = "question", answer_key = "answer";
    std::vector<std::string> command;  // command: program and arguments, no shell
    double time_limit = 60;            // command: seconds for one batch
};

// The problem around a question: raw text or messages, as the options say.
Problem make_problem(const TaskOptions& options, std::string id, const std::string& question,
                     std::string answer, std::string solution);

std::vector<std::string> task_names();
std::unique_ptr<Task> make_task(const TaskOptions& options);

}  // namespace fp8rl::rl
