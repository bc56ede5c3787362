// rl/statistics: what evaluation reports about samples and problems.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace fp8rl::rl {

// Probability that at least one of k samples drawn without replacement from n, c of them right, is right:
// 1 - C(n - c, k) / C(n, k), as a product (Chen et al. 2021, "Evaluating large language models trained on
// code"). Needs 0 <= c <= n, 1 <= k <= n.
double pass_at_k(int64_t n, int64_t c, int64_t k);

// Index of the first sample that holds the majority answer (cons@k): the most frequent answer that is not
// empty; among equally frequent ones the one that appeared first. -1 when every answer is empty.
int64_t consensus(std::span<const std::string> answers);

// A mean over problems and the half width of its 95 % interval, 1.96 standard errors (sample deviation).
// Samples of one problem are not independent: average them first. half_width is 0 for fewer than 2 values.
struct Estimate {
    double mean = 0, half_width = 0;
    int64_t count = 0;
};
Estimate estimate(std::span<const double> values);

}  // namespace fp8rl::rl
