#include "core/rng.h"

#include <cmath>

#include "core/error.h"

namespace fp8rl {

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
    for (int round = 0; round < 10; ++round) {
        uint64_t p0 = uint64_t{0xD2511F53u} * c[0];
        uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2];
        c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
             static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
        k[0] += 0x9E3779B9u;
        k[1] += 0xBB67AE85u;
    }
    return c;
}

static std::array<uint32_t, 2> key_of(uint64_t seed, Stream stream) {
    // The stream is mixed into the key: neighbouring seeds must not share numbers across streams.
    auto k = philox(
        {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), static_cast<uint32_t>(stream), 0},
        {0x66703872u, 0x6c000000u});
    return {k[0], k[1]};
}

float uniform(uint64_t seed, Stream stream, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    return static_cast<float>(philox({a, b, c, d}, key_of(seed, stream))[0] >> 8) * 0x1p-24f;
}

uint32_t Random::bits() {
    uint32_t lane = drawn_ % 4;
    if (lane == 0) {
        uint64_t block = drawn_ / 4;
        block_ = philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), a_, b_},
                        key_of(seed_, stream_));
    }
    ++drawn_;
    return block_[lane];
}

float Random::uniform() { return static_cast<float>(bits() >> 8) * 0x1p-24f; }

int64_t Random::integer(int64_t low, int64_t high) {
    check(low <= high && high - low < (int64_t{1} << 32), "random integer: empty or too wide range");
    uint64_t span = static_cast<uint64_t>(high - low) + 1;
    uint64_t limit = (uint64_t{1} << 32) / span * span;
    uint64_t x;
    do x = bits();
    while (x >= limit);
    return low + static_cast<int64_t>(x % span);
}

float Random::normal() {
    double u = (bits() + 1.0) * 0x1p-32;
    double v = bits() * 0x1p-32;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v));
}

}  // namespace fp8rl
