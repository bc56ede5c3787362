// rl/dataset: problems from files of JSON lines. Training rows come in a new order every epoch, keyed by
// (seed, epoch). A question of the validation set never trains: such rows are left out and counted. Without a
// validation file, the rows whose questions have the smallest hashes are set aside. Refuses a line that is
// not as described, by file and line.
#pragma once
#include <functional>

#include "io/json.h"
#include "rl/task.h"

namespace fp8rl::rl {

struct Row {
    std::string id;  // "train.jsonl:12": file name and line
    std::string question, answer, solution;
};

class DatasetTask : public Task {
  public:
    // Turns one JSON object into question, answer and solution (the id is filled in by the reader).
    using ReadRow = std::function<Row(const Json&)>;

    Problem train(uint64_t index) const override;
    int64_t validation_size() const override { return static_cast<int64_t>(validation_.size()); }
    Problem validation(int64_t index) const override;
    std::vector<std::string> notes() const override { return notes_; }

  protected:
    DatasetTask(const TaskOptions& options, const ReadRow& read);

  private:
    void set_aside(int64_t count);  // moves training rows to an empty validation set
    Problem problem(const Row& row) const;

    TaskOptions options_;
    std::vector<Row> train_, validation_;
    std::vector<std::string> notes_;
};

// Question and answer under the options' keys (text, or a number for the answer), an optional "solution".
Row read_question_and_answer(const Json& json, const TaskOptions& options);

}  // namespace fp8rl::rl
