#include "rl/statistics.h"

#include <cmath>
#include <unordered_map>

#include "core/error.h"

namespace fp8rl::rl {

double pass_at_k(int64_t n, int64_t c, int64_t k) {
    check(0 <= c && c <= n && 1 <= k && k <= n, "pass@k: n ", n, ", c ", c, ", k ", k);
    if (n - c < k) return 1;  // every draw of k holds a right one
    double none_right = 1;
    for (int64_t i = n - c + 1; i <= n; ++i)
        none_right *= 1 - static_cast<double>(k) / static_cast<double>(i);
    return 1 - none_right;
}

int64_t consensus(std::span<const std::string> answers) {
    std::unordered_map<std::string, int64_t> votes;
    for (const auto& a : answers)
        if (!a.empty()) ++votes[a];
    int64_t best = -1, most = 0;
    for (size_t i = 0; i < answers.size(); ++i)
        if (!answers[i].empty() && votes[answers[i]] > most)
            most = votes[answers[i]], best = static_cast<int64_t>(i);
    return best;
}

Estimate estimate(std::span<const double> values) {
    Estimate e;
    e.count = static_cast<int64_t>(values.size());
    if (values.empty()) return e;
    auto n = static_cast<double>(values.size());
    for (double v : values) e.mean += v;
    e.mean /= n;
    double squares = 0;
    for (double v : values) squares += (v - e.mean) * (v - e.mean);
    if (values.size() > 1) e.half_width = 1.96 * std::sqrt(squares / (n - 1) / n);
    return e;
}

}  // namespace fp8rl::rl
