// cpu/gemm_f32: the AVX2 and AVX-512 compilations of gemm_f32.inc.
#include "cpu/gemm_problem.h"
#include "cpu/simd.h"

#if FP8RL_X86
#include <array>

#include "cpu/gemm_range.h"

#pragma GCC diagnostic ignored "-Wuninitialized"  // g++ 12's AVX-512 header
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

namespace fp8rl::cpu {
namespace {

// Eight accumulators of A's six rows leave registers for B and the broadcast.
#define FP8RL_PATH f32_avx2
#define FP8RL_TARGET __attribute__((target(FP8RL_AVX2)))
#define FP8RL_V __m256
#define FP8RL_V_LANES 8
#define FP8RL_V_ROWS 6
#define FP8RL_V_ZERO _mm256_setzero_ps
#define FP8RL_V_LOAD _mm256_loadu_ps
#define FP8RL_V_STORE _mm256_storeu_ps
#define FP8RL_V_SET _mm256_set1_ps
#define FP8RL_V_MUL _mm256_mul_ps
#define FP8RL_V_FMA _mm256_fmadd_ps
#include "cpu/gemm_f32.inc"
#undef FP8RL_PATH
#undef FP8RL_TARGET
#undef FP8RL_V
#undef FP8RL_V_LANES
#undef FP8RL_V_ROWS
#undef FP8RL_V_ZERO
#undef FP8RL_V_LOAD
#undef FP8RL_V_STORE
#undef FP8RL_V_SET
#undef FP8RL_V_MUL
#undef FP8RL_V_FMA

#define FP8RL_PATH f32_avx512
#define FP8RL_TARGET __attribute__((target(FP8RL_AVX512 ",prefer-vector-width=512")))
#define FP8RL_V __m512
#define FP8RL_V_LANES 16
#define FP8RL_V_ROWS 12
#define FP8RL_V_ZERO _mm512_setzero_ps
#define FP8RL_V_LOAD _mm512_loadu_ps
#define FP8RL_V_STORE _mm512_storeu_ps
#define FP8RL_V_SET _mm512_set1_ps
#define FP8RL_V_MUL _mm512_mul_ps
#define FP8RL_V_FMA _mm512_fmadd_ps
#include "cpu/gemm_f32.inc"

}  // namespace

void gemm_range_avx2(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                     char* scratch) {
    gemm_range<f32_avx2::Engine>(p, row, row_end, panel, panel_end, scratch);
}

void gemm_range_avx512(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                       char* scratch) {
    gemm_range<f32_avx512::Engine>(p, row, row_end, panel, panel_end, scratch);
}

}  // namespace fp8rl::cpu
#endif
