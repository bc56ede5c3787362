// cpu/gemm_scalar: the definition of the GEMM, written out: one element of C after the other.
#include <cmath>

#include "cpu/gemm_problem.h"
#include "cpu/pack.h"

namespace fp8rl::cpu {
namespace {

float element_a(const GemmProblem& p, int64_t row, int64_t k) {
    const char* at = p.a + row * p.a_stride;
    return p.a_type == DType::f32 ? reinterpret_cast<const float*>(at)[k]
                                  : to_float(reinterpret_cast<const bf16*>(at)[k]);
}

float element_b(const GemmProblem& p, const Layout& layout, int64_t column, int64_t k) {
    const char* at = p.b + layout.offset(Side::b, column, k);
    if (p.b_type == DType::f32) return *reinterpret_cast<const float*>(at);
    if (p.b_type == DType::bf16) return to_float(*reinterpret_cast<const bf16*>(at));
    return decode(p.b_type, *reinterpret_cast<const uint8_t*>(at));
}

float clean(float x) { return is_nan(x) ? float_of_bits(f32_nan_bits) : x; }

}  // namespace

void gemm_range_scalar(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                       char*) {
    Layout layout;
    layout.element = p.b_type;
    layout.pairs = p.pairs;
    const int64_t column_end = std::min(panel_end * panel_columns, p.n);
    for (int64_t m = row; m < row_end; ++m)
        for (int64_t n = panel * panel_columns; n < column_end; ++n) {
            const float* sb = p.panel_scales(n / panel_columns) + (p.column_scales ? n % panel_columns : 0);
            float total = 0;
            for (int64_t pair = 0, block = 0; pair < p.pairs; pair += p.block_pairs, ++block) {
                float sum = 0;
                for (int64_t i = pair; i < std::min(pair + p.block_pairs, p.pairs); ++i) {
                    sum = std::fma(element_a(p, m, 2 * i + 1), element_b(p, layout, n, 2 * i + 1), sum);
                    sum = std::fma(element_a(p, m, 2 * i), element_b(p, layout, n, 2 * i), sum);
                }
                total = std::fma(sum, p.sa[m * p.sa_row + block * p.sa_step] * sb[block * p.sb_step], total);
            }
            total = clean(total * p.total_scale);
            if (p.c_type == DType::bf16) {
                static_cast<bf16*>(p.c)[m * p.n + n] = to_bf16(total);
            } else {
                float& c = static_cast<float*>(p.c)[m * p.n + n];
                c = p.accumulate ? clean(c + total) : total;
            }
        }
}

}  // namespace fp8rl::cpu
