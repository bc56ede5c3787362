#include "rl/permutation.h"

#include <bit>
#include <utility>

#include "core/error.h"
#include "core/rng.h"

namespace fp8rl::rl {

uint64_t shuffled_index(uint64_t seed, uint32_t epoch, uint64_t position, uint64_t size) {
    check(position < size, "shuffle: position ", position, " of ", size);
    // Two halves of `bits` bits each: at most four times the range, so a walk takes few steps.
    const int bits = (std::bit_width(size - 1) + 1) / 2;
    check(bits <= 32, "shuffle: ", size, " elements");
    const uint64_t low_mask = (uint64_t{1} << bits) - 1;
    auto round_key = [&](uint32_t round, uint64_t half) {
        return philox({static_cast<uint32_t>(half), round, epoch, static_cast<uint32_t>(Stream::shuffle)},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[0];
    };
    uint64_t x = position;
    do {
        uint64_t left = x >> bits, right = x & low_mask;
        for (uint32_t round = 0; round < 4; ++round) {
            left = (left ^ round_key(round, right)) & low_mask;
            std::swap(left, right);
        }
        x = left << bits | right;
    } while (x >= size);
    return x;
}

std::vector<double> shuffled_rewards(std::span<const double> rewards, uint64_t seed, uint32_t step) {
    std::vector<double> out(rewards.begin(), rewards.end());
    Random random(seed, Stream::shuffle, step, 1);
    for (size_t i = out.size(); i > 1; --i)
        std::swap(out[i - 1], out[random.integer(0, static_cast<int64_t>(i) - 1)]);
    return out;
}

}  // namespace fp8rl::rl
