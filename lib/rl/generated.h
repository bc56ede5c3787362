// rl/generated: tasks that make up their problems. A draw is keyed by (seed, index). The question's hash
// decides whether it is a training or a validation problem, so the two never meet; the validation problems
// are distinct and the same for every seed, so runs can be compared.
#pragma once
#include <functional>

#include "core/rng.h"
#include "rl/task.h"

namespace fp8rl::rl {

struct Exercise {
    std::string question, answer, solution;
};

class GeneratedTask : public Task {
  public:
    using Draw = std::function<Exercise(Random&)>;

    Problem train(uint64_t index) const override;
    int64_t validation_size() const override { return static_cast<int64_t>(validation_.size()); }
    Problem validation(int64_t index) const override;

  protected:
    // Refused: a validation size that the draw's variety cannot fill (one question in eight is set aside).
    GeneratedTask(const TaskOptions& options, Draw draw);

  private:
    TaskOptions options_;
    Draw draw_;
    std::vector<Exercise> validation_;
};

// FNV-1a with a final mix: decides the split, so it must never change.
uint64_t question_hash(std::string_view question);

}  // namespace fp8rl::rl
