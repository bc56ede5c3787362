// rl/advantage: from the rewards of a group of samples (one prompt) to one advantage per sample.
// Refuses a reward that is not finite, by prompt.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace fp8rl::rl {

enum class Baseline { group_mean, leave_one_out };
enum class AdvantageStd { sample, population, none };

struct AdvantageConfig {
    Baseline baseline = Baseline::group_mean;
    AdvantageStd std = AdvantageStd::sample;
    double epsilon = 1e-6;  // added to the standard deviation
};

struct Advantages {
    std::vector<float> values;  // [samples]
    int64_t groups = 0;
    int64_t equal_groups = 0;     // zero variance: all rewards equal, or one sample
    int64_t groups_all_zero = 0;  // every reward 0
    int64_t groups_all_one = 0;   // every reward 1
};

// A = (R - mean) / (std + epsilon), GRPO (Shao et al. 2024, DeepSeekMath); `none` leaves out the division
// (Dr.GRPO, Liu et al. 2025). `leave_one_out`: R minus the mean of the others, G / (G - 1) (R - mean) (RLOO);
// the deviation stays that of the whole group. Group g owns samples [groups[g], groups[g + 1]).
// Rewards are compared exactly: a group of equal rewards, or of one sample, gives exactly 0 (f04).
Advantages group_advantages(std::span<const double> rewards, std::span<const int64_t> groups,
                            std::span<const std::string> prompt_ids, const AdvantageConfig& config);

}  // namespace fp8rl::rl
