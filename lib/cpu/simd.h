// cpu/simd: which instruction set a kernel may use. Kernels are compiled per path by function target
// attributes and picked here at run time; every path gives the same bits. Flush-to-zero is part of the GEMM's
// definition, so its mode switch lives here too.
#pragma once
#include "cpu/cpu_backend.h"

#if defined(__x86_64__)
#define FP8RL_X86 1
#include <immintrin.h>
#else
#define FP8RL_X86 0
#endif

// What each path may use. avx512_bf16 includes VBMI: the in-register FP8 decode needs it.
#define FP8RL_AVX2 "avx2,fma"
#define FP8RL_AVX512 "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq"
#define FP8RL_AVX512_BF16 "avx2,fma,avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx512vbmi"

namespace fp8rl::cpu {

// Flush-to-zero and denormals-are-zero for the calling thread while it lives; the former modes come back.
class FlushToZero {
  public:
#if FP8RL_X86
    FlushToZero() : saved_(_mm_getcsr()) { _mm_setcsr(saved_ | 0x8040u); }
    ~FlushToZero() { _mm_setcsr(saved_); }
#else
    FlushToZero() {}
    ~FlushToZero() {}
#endif
    FlushToZero(const FlushToZero&) = delete;
    FlushToZero& operator=(const FlushToZero&) = delete;

  private:
#if FP8RL_X86
    unsigned saved_;
#endif
};

}  // namespace fp8rl::cpu
