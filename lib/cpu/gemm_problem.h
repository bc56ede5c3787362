// cpu/gemm_problem: one GEMM as its kernels see it: pointers, strides and scales, after shapes were checked.
// K is counted in pairs of elements; `block_pairs` of them are summed before scales apply. A missing scale is
// a pointer to 1 with stride 0.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core/dtype.h"

namespace fp8rl::cpu {

struct GemmProblem {
    int64_t m = 0, n = 0, k = 0;
    int64_t pairs = 0, block_pairs = 64, panels = 0;
    const char* a = nullptr;  // rows, a_stride bytes apart
    int64_t a_stride = 0;
    DType a_type = DType::bf16;  // bf16 | f32
    const char* b = nullptr;     // panels (cpu/pack.h)
    DType b_type = DType::bf16;  // bf16 | e4m3 | e5m2 | f32
    int64_t pair_bytes = 0, panel_bytes = 0;
    const float* sa = nullptr;  // factor of (row, block) at sa[row * sa_row + block * sa_step]
    int64_t sa_row = 0, sa_step = 0;
    const float* sb = nullptr;
    int64_t sb_step = 0;         // between blocks
    int64_t sb_square = 0;       // between groups of four panels (128x128 blocks)
    int64_t sb_panel = 0;        // between panels (a factor for each column)
    bool column_scales = false;  // sb holds 32 factors a panel and block
    float total_scale = 1;
    void* c = nullptr;  // [m, n], dense
    DType c_type = DType::f32;
    bool accumulate = false;

    const float* panel_scales(int64_t panel) const { return sb + panel / 4 * sb_square + panel * sb_panel; }
};

// Rows [row, row_end) times panels [panel, panel_end) of C. `scratch` is the thread's.
using GemmRange = void (*)(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel,
                           int64_t panel_end, char* scratch);

void gemm_range_scalar(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                       char* scratch);
void gemm_range_avx2(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                     char* scratch);
void gemm_range_avx512(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                       char* scratch);
// BF16 and FP8 operands only.
void gemm_range_dot(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                    char* scratch);

// One register tile: `rows` rows of A times one panel over a run of K.
struct GemmTile {
    const char* a;
    int64_t a_stride;
    const char* b;
    int64_t pairs, block_pairs;
    const float* sa;
    int64_t sa_row, sa_step;
    const float* sb;
    int64_t sb_step;
    float* totals;  // [rows][32]
    bool fresh;     // totals start from zero here
    char* image;    // where codes go as BF16, when this tile expands them for the next ones
    int64_t ahead;  // bytes of B to prefetch ahead of the pair at hand
    bool e5m2;
};

// Totals to C: total * total_scale, rounded to C's type or added to it. Every NaN becomes 7fc00000.
struct GemmFinish {
    const float* totals;    // [rows][32]
    int64_t rows, columns;  // columns <= 32
    float scale;
    bool accumulate, to_bf16;
    char* c;
    int64_t c_stride;  // bytes
};

}  // namespace fp8rl::cpu
