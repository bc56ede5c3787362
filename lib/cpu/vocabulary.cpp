// cpu/vocabulary: dispatch to the SIMD level in use; the definitions stand in the header.
#include "cpu/vocabulary.h"

#include <algorithm>

#include "cpu/cpu_backend.h"
#include "cpu/vec.h"

#define FP8RL_KERNELS "cpu/vocabulary_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

void add_logits(SoftmaxState& state, const float* x, int64_t n, float inverse_temperature, float cutoff,
                SoftmaxBlock* blocks) {
    const auto statistics = FP8RL_PICK(block_statistics);
    for (int64_t i = 0; i < n; i += vocabulary_block) {
        const SoftmaxBlock b =
            statistics(x + i, std::min(vocabulary_block, n - i), inverse_temperature, cutoff);
        state.merge(b);
        if (blocks) blocks[i / vocabulary_block] = b;
    }
}

void softmax_weights(float* weights, const float* x, int64_t n, float inverse_temperature, float cutoff,
                     float base) {
    FP8RL_PICK(weights_of)(weights, x, n, inverse_temperature, cutoff, base);
}

double mass_of(const float* weights, int64_t n) { return FP8RL_PICK(mass_of_lanes)(weights, n); }

DepthMasses masses_by_depth(const float* weights, int64_t n) { return FP8RL_PICK(masses_above)(weights, n); }

void piece_maxima(float* maxima, const float* x, int64_t n) { FP8RL_PICK(maxima_of)(maxima, x, n); }

template <class T>
void softmax_gradient(T* dlogits, const float* x, int64_t n, float inverse_temperature, float cutoff,
                      float lse, float entropy, float dlogp, float dentropy, int64_t target) {
    FP8RL_PICK(gradient_of<T>)
    (dlogits, x, n, inverse_temperature, cutoff, lse, entropy, dlogp, dentropy, target);
}
template void softmax_gradient(bf16*, const float*, int64_t, float, float, float, float, float, float,
                               int64_t);
template void softmax_gradient(float*, const float*, int64_t, float, float, float, float, float, float,
                               int64_t);

}  // namespace fp8rl::cpu
