#include "rl/generated.h"

#include <unordered_set>

#include "core/error.h"

namespace fp8rl::rl {

uint64_t question_hash(std::string_view question) {
    uint64_t h = 0xcbf29ce484222325u;
    for (unsigned char c : question) h = (h ^ c) * 0x100000001b3u;
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
    return h ^ (h >> 32);
}

static bool set_aside(const Exercise& e) { return question_hash(e.question) % 8 == 0; }

GeneratedTask::GeneratedTask(const TaskOptions& options, Draw draw)
    : Task(options.reward_truncated), options_(options), draw_(std::move(draw)) {
    if (options_.validation_size < 1)
        refuse("task.validation_size: 0 means a whole file; ", options_.name,
               " is generated and needs at least 1");
    constexpr int64_t most = 1'000'000;
    if (options_.validation_size > most)
        refuse("task.validation_size: ", options_.validation_size, " is more than ", most,
               " generated problems");
    Random random(0, Stream::task, 0, ~uint32_t{0});  // train() draws never reach this key
    std::unordered_set<std::string> seen;
    const int64_t attempts = 1000 + 200 * options_.validation_size;
    // Far more draws in a row without anything new than chance allows while much is left: there is no more.
    int64_t fruitless = 0;
    for (int64_t i = 0; i < attempts && fruitless < 20000 && validation_size() < options_.validation_size;
         ++i) {
        Exercise e = draw_(random);
        const bool fresh = set_aside(e) && seen.insert(e.question).second;
        fruitless = fresh ? 0 : fruitless + 1;
        if (fresh) validation_.push_back(std::move(e));
    }
    if (validation_size() < options_.validation_size)
        refuse("task.validation_size: ", options_.validation_size, " asked, but with these settings ",
               options_.name, " has only about ", validation_size(), " problems to set aside");
}

Problem GeneratedTask::train(uint64_t index) const {
    check(index < uint64_t{~uint32_t{0}} << 32, "task: training index ", index);
    Random random(options_.seed, Stream::task, static_cast<uint32_t>(index),
                  static_cast<uint32_t>(index >> 32));
    // Seven questions in eight are training problems; a draw that never finds one has no variety at all.
    for (int attempt = 0; attempt < 10000; ++attempt) {
        Exercise e = draw_(random);
        if (!set_aside(e))
            return make_problem(options_, cat("train/", index), e.question, std::move(e.answer),
                                std::move(e.solution));
    }
    refuse("task ", options_.name, ": these settings leave no problem to train on");
}

Problem GeneratedTask::validation(int64_t index) const {
    check(index >= 0 && index < validation_size(), "task: validation problem ", index, " of ",
          validation_size());
    const Exercise& e = validation_[index];
    return make_problem(options_, cat("validation/", index), e.question, e.answer, e.solution);
}

}  // namespace fp8rl::rl
