// cpu/peak: the best of several rounds, since neighbours can only slow one down.
#include "cpu/peak.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "core/parallel.h"
#include "cpu/memory.h"
#include "cpu/simd.h"

namespace fp8rl::cpu {
namespace {

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

constexpr int64_t dot_rounds = 20000, sums = 24;
std::atomic<float> sink;  // keeps the arithmetic alive

struct Dot {
    void (*run)(int64_t rounds);
    double flop_per_instruction;
};

void dot_scalar(int64_t rounds) {
    float a[sums] = {};
    for (int64_t r = 0; r < rounds; ++r)
        for (float& x : a) x = std::fma(x, 0.5f, 1.0f);
    float all = 0;
    for (float x : a) all += x;
    sink = all;
}

int64_t read_scalar(const int64_t* p, int64_t n) {
    int64_t x = 0;
    for (int64_t i = 0; i < n; ++i) x ^= p[i];
    return x;
}

#if FP8RL_X86

__attribute__((target(FP8RL_AVX2))) void dot_avx2(int64_t rounds) {
    __m256 a[12];
    const __m256 x = _mm256_set1_ps(0.5f);
#pragma GCC unroll 12
    for (__m256& v : a) v = x;
    for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 24
        for (int i = 0; i < sums; ++i) asm volatile("vfmadd231ps %1, %1, %0" : "+x"(a[i % 12]) : "x"(x));
    __m256 all = a[0];
#pragma GCC unroll 12
    for (const __m256& v : a) all = _mm256_add_ps(all, v);
    sink = _mm256_cvtss_f32(all);
}

__attribute__((target(FP8RL_AVX512))) void dot_avx512(int64_t rounds) {
    __m512 a[sums];
    const __m512 x = _mm512_set1_ps(0.5f);
#pragma GCC unroll 24
    for (__m512& v : a) v = x;
    for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 24
        for (int i = 0; i < sums; ++i) asm volatile("vfmadd231ps %1, %1, %0" : "+v"(a[i]) : "v"(x));
    __m512 all = a[0];
#pragma GCC unroll 24
    for (const __m512& v : a) all = _mm512_add_ps(all, v);
    sink = _mm512_cvtss_f32(all);
}

__attribute__((target(FP8RL_AVX512_BF16))) void dot_bf16(int64_t rounds) {
    __m512 a[sums];
    const __m512i x = _mm512_set1_epi16(0x3f00);
#pragma GCC unroll 24
    for (__m512& v : a) v = _mm512_set1_ps(0.5f);
    for (int64_t r = 0; r < rounds; ++r)
#pragma GCC unroll 24
        for (int i = 0; i < sums; ++i) asm volatile("vdpbf16ps %1, %1, %0" : "+v"(a[i]) : "v"(x));
    __m512 all = a[0];
#pragma GCC unroll 24
    for (const __m512& v : a) all = _mm512_add_ps(all, v);
    sink = _mm512_cvtss_f32(all);
}

__attribute__((target(FP8RL_AVX2))) int64_t read_avx2(const int64_t* p, int64_t n) {
    __m256i a[4] = {};
    for (int64_t i = 0; i < n; i += 16)
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j)
            a[j] = _mm256_xor_si256(a[j], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + i) + j));
    return _mm256_extract_epi64(_mm256_xor_si256(_mm256_xor_si256(a[0], a[1]), _mm256_xor_si256(a[2], a[3])),
                                0);
}

#endif

Dot dot_of_path() {
#if FP8RL_X86
    switch (simd()) {
        case Simd::avx2: return {dot_avx2, 16};
        case Simd::avx512: return {dot_avx512, 32};
        case Simd::avx512_bf16: return {dot_bf16, 64};
        case Simd::scalar: break;
    }
#endif
    return {dot_scalar, 2};
}

}  // namespace

double dot_peak() {
    const Dot dot = dot_of_path();
    const int64_t chunks = int64_t{8} * parallel::threads();
    double best = 1e30;
    const double start = seconds();
    for (int round = 0; round < 3 || seconds() - start < 0.1; ++round) {
        const double begin = seconds();
        parallel::for_each(chunks, [&](int64_t, int) { dot.run(dot_rounds); });
        best = std::min(best, seconds() - begin);
    }
    return static_cast<double>(chunks * dot_rounds * sums) * dot.flop_per_instruction / best * 1e-9;
}

double read_peak() {
    constexpr int64_t bytes = int64_t{256} << 20, pieces = 256, words = bytes / 8 / pieces;
    int64_t* data = static_cast<int64_t*>(allocate(bytes));
    parallel::for_each(pieces, [&](int64_t i, int) { std::fill_n(data + i * words, words, i); });
    auto* read = read_scalar;
#if FP8RL_X86
    if (simd() != Simd::scalar) read = read_avx2;
#endif
    double best = 1e30;
    const double start = seconds();
    for (int round = 0; round < 2 || seconds() - start < 0.1; ++round) {
        const double begin = seconds();
        parallel::for_each(pieces,
                           [&](int64_t i, int) { sink = static_cast<float>(read(data + i * words, words)); });
        best = std::min(best, seconds() - begin);
    }
    release(data);
    return static_cast<double>(bytes) / best * 1e-9;
}

}  // namespace fp8rl::cpu
