// core/rng: counter-based random numbers (Philox 4x32-10; Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC 2011). A number is a pure function of its key and counter: no state, so no dependence on
// order, batch or resume.
#pragma once
#include <array>
#include <cstdint>

namespace fp8rl {

// Each use of randomness owns a stream, so that no two ever share a counter.
enum class Stream : uint32_t { init = 1, sample = 2, task = 3, shuffle = 4, bench = 5, test = 6 };

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Uniform in [0, 1) with 24 bits, keyed by (seed, stream) and the four counters.
float uniform(uint64_t seed, Stream stream, uint32_t a, uint32_t b = 0, uint32_t c = 0, uint32_t d = 0);

// The sampling key of DESIGN invariant 2.
inline float sampling_uniform(uint64_t seed, uint32_t step, uint32_t prompt, uint32_t sample,
                              uint32_t token) {
    return uniform(seed, Stream::sample, step, prompt, sample, token);
}

// A sequence for generators of data: draws follow one another under a fixed key.
class Random {
  public:
    Random(uint64_t seed, Stream stream, uint32_t a = 0, uint32_t b = 0)
        : seed_(seed), stream_(stream), a_(a), b_(b) {}
    uint32_t bits();
    float uniform();                             // [0, 1)
    int64_t integer(int64_t low, int64_t high);  // both ends included, without bias
    float normal();                              // mean 0, variance 1 (Box-Muller in double)

  private:
    uint64_t seed_;
    Stream stream_;
    uint32_t a_, b_;
    uint64_t drawn_ = 0;
    std::array<uint32_t, 4> block_{};
};

}  // namespace fp8rl
