#include "rl/advantage.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"

namespace fp8rl::rl {

// The advantages of one group whose rewards differ.
static void group(std::span<const double> rewards, const AdvantageConfig& config, float* out) {
    auto n = static_cast<double>(rewards.size());
    double sum = 0;
    for (double r : rewards) sum += r;
    double mean = sum / n, squares = 0;
    for (double r : rewards) squares += (r - mean) * (r - mean);

    double scale = config.baseline == Baseline::leave_one_out ? n / (n - 1) : 1;
    if (config.std == AdvantageStd::sample) scale /= std::sqrt(squares / (n - 1)) + config.epsilon;
    if (config.std == AdvantageStd::population) scale /= std::sqrt(squares / n) + config.epsilon;
    for (double r : rewards) *out++ = static_cast<float>((r - mean) * scale);
}

Advantages group_advantages(std::span<const double> rewards, std::span<const int64_t> groups,
                            std::span<const std::string> prompt_ids, const AdvantageConfig& config) {
    Advantages a;
    a.groups = groups.empty() ? 0 : static_cast<int64_t>(groups.size()) - 1;
    check(static_cast<int64_t>(prompt_ids.size()) == a.groups, "advantages: ", prompt_ids.size(),
          " prompt ids for ", a.groups, " groups");
    check((a.groups ? groups.back() : 0) == static_cast<int64_t>(rewards.size()),
          "advantages: groups end at ", a.groups ? groups.back() : 0, " of ", rewards.size(), " rewards");
    a.values.assign(rewards.size(), 0.0f);

    for (int64_t g = 0; g < a.groups; ++g) {
        check(groups[g] < groups[g + 1], "advantages: group ", g, " is empty");
        auto r = rewards.subspan(groups[g], groups[g + 1] - groups[g]);
        for (size_t i = 0; i < r.size(); ++i)
            if (!std::isfinite(r[i]))
                refuse("prompt ", prompt_ids[g], ", sample ", i, ": reward is ", r[i],
                       "; finite numbers only");
        bool equal = std::all_of(r.begin(), r.end(), [&](double x) { return x == r[0]; });
        a.equal_groups += equal;
        a.groups_all_zero += equal && r[0] == 0;
        a.groups_all_one += equal && r[0] == 1;
        if (!equal) group(r, config, a.values.data() + groups[g]);
    }
    return a;
}

}  // namespace fp8rl::rl
