// cpu/vocabulary: softmax statistics over a row of logits, the one definition behind token_logprob and
// sample. A row is walked in blocks of 1,024 from id 0. With s_i = x_i * (1 / temperature), over the ids with
// x_i >= cutoff:
//   block   m = max s_i, z = sum exp(s_i - m), t = sum exp(s_i - m) (s_i - m); sums by the row rule (256
//   partial sums) merge   the first block with an id is the state (M, Z, T); then N = max(M, m), a = exp(M -
//   N), b = exp(m - N),
//           Z = fma(Z, a, z b), T = fma(a, fma(Z_old, M - N, T), b fma(z, m - N, t)), M = N
//   log-prob of s: (s - M) - log Z;   lse: M + log Z;   entropy: log Z - T / Z
// NaN or +Inf among the logits makes z NaN.
#pragma once
#include <cstdint>

#include "cpu/math.h"

namespace fp8rl::cpu {

inline constexpr int64_t vocabulary_block = 1024;

struct SoftmaxBlock {
    float m = 0, z = 0, t = 0;
};

struct SoftmaxState {
    float m = 0, z = 0, t = 0;  // z = 0: no id yet
    void merge(const SoftmaxBlock& b) {
        if (b.z == 0.0f) return;
        if (z == 0.0f) {
            m = b.m, z = b.z, t = b.t;
            return;
        }
        const float n = m > b.m ? m : b.m, a = exp_f32(m - n), c = exp_f32(b.m - n);
        t = fma_f32(a, fma_f32(z, m - n, t), c * fma_f32(b.z, b.m - n, b.t));
        z = fma_f32(z, a, b.z * c);
        m = n;
    }
    float log_probability(float s) const { return (s - m) - log_f32(z); }
    float lse() const { return m + log_f32(z); }
    float entropy() const { return log_f32(z) - t / z; }
};

// Adds n logits to a row's state; x is a whole number of blocks into the row. `blocks` (or null) receives
// each block.
void add_logits(SoftmaxState& state, const float* x, int64_t n, float inverse_temperature, float cutoff,
                SoftmaxBlock* blocks = nullptr);

// weights[i] = exp(s_i - base), 0 for ids below the cutoff.
void softmax_weights(float* weights, const float* x, int64_t n, float inverse_temperature, float cutoff,
                     float base);

// FP64 sum of weights: lane i mod 16 takes element i, then a halving tree.
double mass_of(const float* weights, int64_t n);

// For each of four depths, how many weights are at least exp(-depth) and about how much they sum to (FP32).
inline constexpr float mass_depths[4] = {2, 4, 6, 9};
struct DepthMasses {
    float mass[4];
    int64_t count[4];
};
DepthMasses masses_by_depth(const float* weights, int64_t n);

// maxima[j] = the largest of x[64 j .. 64 j + 63]; ceil(n / 64) of them.
inline constexpr int64_t piece = 64;
void piece_maxima(float* maxima, const float* x, int64_t n);

// dlogits[i] = d/dx_i of dlogp * log-prob(target) + dentropy * entropy, rounded to T (bf16, float); `target`
// counts from x and may lie outside.
template <class T>
void softmax_gradient(T* dlogits, const float* x, int64_t n, float inverse_temperature, float cutoff,
                      float lse, float entropy, float dlogp, float dentropy, int64_t target);

}  // namespace fp8rl::cpu
