// cpu/vec: sixteen float lanes per SIMD level, with the same meaning lane by lane. A kernel file
// (*_kernels.inc) is compiled once per level by cpu/each_simd.inc, inside a region whose target attributes
// allow that level's instructions; nothing here or there may be a std template, which would leak those
// instructions into the program. Lane rules that differ elsewhere are fixed: max(a, b) is a > b ? a : b (so a
// NaN in a is dropped), less and equal are false for NaN, sums over lanes halve (i, i + 8), (i, i + 4), ...
// Pairs are two neighbours along the summed dimension, 2i + 1 added before 2i: dot2(acc, a, b) = fma(a0, b0,
// fma(a1, b1, acc)) per lane, which is the AVX512_BF16 dot when denormals are flushed.
#pragma once
#include <cstdint>
#include <cstring>

#include "cpu/math.h"
#include "quant/formats.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define FP8RL_LANES static inline __attribute__((always_inline, unused))
#define FP8RL_LANES_METHOD inline __attribute__((always_inline))

namespace fp8rl::cpu {

// The definition: plain loops.
namespace vec_scalar {
struct Vec {
    float v[16];
};
struct Mask {
    bool v[16];
};
struct Pair {
    Vec even, odd;
};
inline constexpr int tile_rows = 1, tile_vectors = 1;  // of a kernel's register tile

#define FP8RL_EACH_LANE for (int i = 0; i < 16; ++i)
FP8RL_LANES Vec set(float x) {
    Vec r;
    FP8RL_EACH_LANE r.v[i] = x;
    return r;
}
FP8RL_LANES Vec load(const float* p) {
    Vec r;
    FP8RL_EACH_LANE r.v[i] = p[i];
    return r;
}
FP8RL_LANES Vec load(const bf16* p) {
    Vec r;
    FP8RL_EACH_LANE r.v[i] = to_float(p[i]);
    return r;
}
template <class T>
FP8RL_LANES Vec load_n(const T* p, int n) {
    Vec r;
    FP8RL_EACH_LANE {
        if constexpr (sizeof(T) == 2)
            r.v[i] = i < n ? to_float(p[i]) : 0.0f;
        else
            r.v[i] = i < n ? p[i] : 0.0f;
    }
    return r;
}
FP8RL_LANES void store_n(float* p, Vec a, int n) {
    for (int i = 0; i < n; ++i) p[i] = a.v[i];
}
FP8RL_LANES void store_n(bf16* p, Vec a, int n) {
    for (int i = 0; i < n; ++i) p[i] = to_bf16(a.v[i]);
}
template <class T>
FP8RL_LANES void store(T* p, Vec a) {
    store_n(p, a, 16);
}
FP8RL_LANES Vec operator+(Vec a, Vec b) {
    FP8RL_EACH_LANE a.v[i] += b.v[i];
    return a;
}
FP8RL_LANES Vec operator-(Vec a, Vec b) {
    FP8RL_EACH_LANE a.v[i] -= b.v[i];
    return a;
}
FP8RL_LANES Vec operator*(Vec a, Vec b) {
    FP8RL_EACH_LANE a.v[i] *= b.v[i];
    return a;
}
FP8RL_LANES Vec operator/(Vec a, Vec b) {
    FP8RL_EACH_LANE a.v[i] /= b.v[i];
    return a;
}
FP8RL_LANES Vec fma(Vec a, Vec b, Vec c) {
    FP8RL_EACH_LANE c.v[i] = fma_f32(a.v[i], b.v[i], c.v[i]);
    return c;
}
FP8RL_LANES Vec sqrt(Vec a) {
    FP8RL_EACH_LANE a.v[i] = __builtin_sqrtf(a.v[i]);
    return a;
}
FP8RL_LANES Vec max(Vec a, Vec b) {
    FP8RL_EACH_LANE a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}
FP8RL_LANES Vec abs(Vec a) {
    FP8RL_EACH_LANE a.v[i] = absolute(a.v[i]);
    return a;
}
FP8RL_LANES Mask less(Vec a, Vec b) {
    Mask m;
    FP8RL_EACH_LANE m.v[i] = a.v[i] < b.v[i];
    return m;
}
FP8RL_LANES Mask less_equal(Vec a, Vec b) {
    Mask m;
    FP8RL_EACH_LANE m.v[i] = a.v[i] <= b.v[i];
    return m;
}
FP8RL_LANES Mask equal(Vec a, Vec b) {
    Mask m;
    FP8RL_EACH_LANE m.v[i] = a.v[i] == b.v[i];
    return m;
}
FP8RL_LANES Mask first(int n) {
    Mask m;
    FP8RL_EACH_LANE m.v[i] = i < n;
    return m;
}
FP8RL_LANES int count(Mask m) {
    int n = 0;
    FP8RL_EACH_LANE n += m.v[i];
    return n;
}
FP8RL_LANES Vec select(Mask m, Vec a, Vec b) {
    FP8RL_EACH_LANE b.v[i] = m.v[i] ? a.v[i] : b.v[i];
    return b;
}
FP8RL_LANES Vec exp(Vec x) {
    FP8RL_EACH_LANE x.v[i] = exp_f32(x.v[i]);
    return x;
}
FP8RL_LANES Vec round_to_bf16(Vec a) {
    FP8RL_EACH_LANE a.v[i] = round_bf16(a.v[i]);
    return a;
}
FP8RL_LANES Vec round_to_e4m3(Vec a) {
    FP8RL_EACH_LANE a.v[i] = decode<E4m3>(encode<E4m3>(a.v[i]));
    return a;
}
FP8RL_LANES void encode_e4m3(uint8_t* codes, Vec a) { FP8RL_EACH_LANE codes[i] = encode<E4m3>(a.v[i]); }
FP8RL_LANES void decode_e4m3(bf16* out, const uint8_t* codes) {  // 64 of them
    for (int i = 0; i < 64; ++i) out[i] = to_bf16(decode<E4m3>(codes[i]));
}
FP8RL_LANES float sum(Vec a) {
    for (int h = 8; h; h /= 2)
        for (int i = 0; i < h; ++i) a.v[i] += a.v[i + h];
    return a.v[0];
}
FP8RL_LANES float maximum(Vec a) {
    for (int h = 8; h; h /= 2)
        for (int i = 0; i < h; ++i) a.v[i] = a.v[i] > a.v[i + h] ? a.v[i] : a.v[i + h];
    return a.v[0];
}
// bf16: lane l holds elements 2l (even) and 2l + 1 (odd). f32: even is p, odd is p + stride.
FP8RL_LANES Pair load_pair(const bf16* p, int) {
    Pair r;
    FP8RL_EACH_LANE r.even.v[i] = to_float(p[2 * i]), r.odd.v[i] = to_float(p[2 * i + 1]);
    return r;
}
FP8RL_LANES Pair load_pair(const float* p, int stride) { return {load(p), load(p + stride)}; }
FP8RL_LANES Pair spread_pair(const bf16* p) { return {set(to_float(p[0])), set(to_float(p[1]))}; }
FP8RL_LANES Pair spread_pair(const float* p) { return {set(p[0]), set(p[1])}; }
FP8RL_LANES Vec dot2(Vec acc, Pair a, Pair b) { return fma(a.even, b.even, fma(a.odd, b.odd, acc)); }
// The inverse of load_pair: rounds, then interleaves.
FP8RL_LANES void store_pair(bf16* p, int, Vec even, Vec odd) {
    FP8RL_EACH_LANE p[2 * i] = to_bf16(even.v[i]), p[2 * i + 1] = to_bf16(odd.v[i]);
}
FP8RL_LANES void store_pair(float* p, int stride, Vec even, Vec odd) {
    store(p, even);
    store(p + stride, odd);
}
#undef FP8RL_EACH_LANE
}  // namespace vec_scalar

}  // namespace fp8rl::cpu

#if defined(__x86_64__)
#include "cpu/vec_avx2.inc"
#include "cpu/vec_avx512.inc"
#endif
