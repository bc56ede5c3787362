#include "rl/dataset.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
#include "core/text.h"
#include "io/jsonl.h"
#include "rl/generated.h"
#include "rl/permutation.h"

namespace fp8rl::rl {

static std::vector<Row> read_rows(const std::string& path, const DatasetTask::ReadRow& read) {
    MappedFile file(path);
    const std::string name = path.substr(path.find_last_of('/') + 1);
    std::vector<Row> rows;
    for_each_json_line(file.text(), path, [&](Json&& json, int64_t line) {
        Row row = read(json);
        if (text::trim(row.question).empty()) refuse(path, ":", line, ": the question is empty");
        row.id = cat(name, ":", line);
        rows.push_back(std::move(row));
    });
    if (rows.empty()) refuse(path, ": no rows");
    return rows;
}

DatasetTask::DatasetTask(const TaskOptions& options, const ReadRow& read)
    : Task(options.reward_truncated), options_(options) {
    if (options.train_file.empty())
        refuse("task.train: the task ", options.name, " needs a file of JSON lines");
    train_ = read_rows(options.train_file, read);
    if (options.validation_file.empty()) {
        set_aside(options.validation_size);
    } else {
        validation_ = read_rows(options.validation_file, read);
        if (options.validation_size > validation_size())
            refuse("task.validation_size: ", options.validation_size, " asked, ", options.validation_file,
                   " has ", validation_size(), " rows (0 takes them all)");
        if (options.validation_size > 0) validation_.resize(options.validation_size);
    }

    std::unordered_set<std::string_view> held_out;
    for (const Row& row : validation_) held_out.insert(text::trim(row.question));
    const auto dropped =
        std::erase_if(train_, [&](const Row& row) { return held_out.count(text::trim(row.question)) > 0; });
    if (train_.empty()) refuse(options.train_file, ": every row is also a validation problem");
    notes_.push_back(cat(train_.size(), " training and ", validation_.size(), " validation problems"));
    if (dropped > 0)
        notes_.push_back(cat(dropped, " rows of ", options.train_file,
                             " left out of training: the same question is a validation problem"));
}

void DatasetTask::set_aside(int64_t count) {
    if (count >= static_cast<int64_t>(train_.size()))
        refuse("task.validation_size: ", count, " of the ", train_.size(), " rows of ", options_.train_file,
               " leave nothing to train on; give task.validation a file, or a smaller number");
    // Stable, so that equal questions keep the order of the file.
    std::stable_sort(train_.begin(), train_.end(), [](const Row& a, const Row& b) {
        return question_hash(text::trim(a.question)) < question_hash(text::trim(b.question));
    });
    validation_.assign(std::make_move_iterator(train_.begin()),
                       std::make_move_iterator(train_.begin() + count));
    train_.erase(train_.begin(), train_.begin() + count);
}

Problem DatasetTask::problem(const Row& row) const {
    return make_problem(options_, row.id, row.question, row.answer, row.solution);
}

Problem DatasetTask::train(uint64_t index) const {
    const uint64_t epoch = index / train_.size();
    check(epoch < ~uint32_t{0}, "task: training index ", index);
    return problem(train_[shuffled_index(options_.seed, static_cast<uint32_t>(epoch), index % train_.size(),
                                         train_.size())]);
}

Problem DatasetTask::validation(int64_t index) const {
    check(index >= 0 && index < validation_size(), "task: validation problem ", index, " of ",
          validation_size());
    return problem(validation_[index]);
}

Row read_question_and_answer(const Json& json, const TaskOptions& options) {
    Row row;
    row.question = json.at(options.question_key).as_string();
    const Json& answer = json.at(options.answer_key);
    row.answer = answer.is_number() ? answer.dump() : answer.as_string();
    row.solution = json.string_or("solution", row.answer);
    return row;
}

}  // namespace fp8rl::rl
