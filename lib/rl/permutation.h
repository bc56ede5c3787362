// rl/permutation: orders that are pure functions of a key: no state to save, so a resumed run sees the same.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace fp8rl::rl {

// Where `position` of epoch `epoch` lies in a random order of [0, size): one permutation per (seed, epoch),
// computed for one element alone (a Feistel network, walked until it falls inside the range).
uint64_t shuffled_index(uint64_t seed, uint32_t epoch, uint64_t position, uint64_t size);

// The control experiment: rewards permuted over the whole batch by (seed, step), so that they say nothing
// about the samples that get them while their distribution stays.
std::vector<double> shuffled_rewards(std::span<const double> rewards, uint64_t seed, uint32_t step);

}  // namespace fp8rl::rl
