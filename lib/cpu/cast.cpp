// cpu/cast: the three compilations of cast.inc, and the choice among them.
#include "cpu/cast.h"

// g++ 12's own AVX-512 header initializes "undefined" vectors with themselves.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace fp8rl::cpu {

#define FP8RL_PATH cast_scalar
#define FP8RL_TARGET
#define FP8RL_SHUFFLE_LANES 0
#include "cpu/cast.inc"
#undef FP8RL_PATH
#undef FP8RL_TARGET

#if FP8RL_X86
#define FP8RL_PATH cast_avx2
#define FP8RL_TARGET __attribute__((target(FP8RL_AVX2)))
#include "cpu/cast.inc"
#undef FP8RL_PATH
#undef FP8RL_TARGET
#undef FP8RL_SHUFFLE_LANES

#define FP8RL_PATH cast_avx512
#define FP8RL_TARGET __attribute__((target(FP8RL_AVX512 ",prefer-vector-width=512")))
#define FP8RL_SHUFFLE_LANES 16
#include "cpu/cast.inc"
#endif

const CastKernels& cast_kernels() {
#if FP8RL_X86
    switch (simd()) {
        case Simd::avx2: return cast_avx2::kernels;
        case Simd::avx512:
        case Simd::avx512_bf16: return cast_avx512::kernels;
        case Simd::scalar: break;
    }
#endif
    return cast_scalar::kernels;
}

}  // namespace fp8rl::cpu
