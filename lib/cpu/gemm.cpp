// cpu/gemm: checks the operands, turns them into a GemmProblem, picks the path and splits C over the threads.
// The split follows rows and columns and never K, so it cannot change a bit. Operands that do not fit each
// other are defects.
#include "cpu/gemm.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/gemm_problem.h"
#include "cpu/pack.h"
#include "cpu/simd.h"
#include "cpu/thread_scratch.h"

namespace fp8rl::cpu {
namespace {

constexpr float one = 1.0f;

// Messages are built only when they are needed: a decode step calls this hundreds of times.
GemmProblem problem_of(Tensor c, const Operand& a, const Operand& b, bool accumulate) {
    check(a.side == Side::a && b.side == Side::b, "gemm: operands on the wrong side");
    check(a.k == b.k, "gemm: K is ", a.k, " and ", b.k);
    if (c.size() != a.rows * b.rows || (c.size() != 0 && c.cols() != b.rows))
        defect("gemm: [", a.rows, ", ", a.k, "] x [", b.rows, ", ", b.k, "] into ", shape_text(c));
    if (c.dtype != DType::f32 && (c.dtype != DType::bf16 || accumulate))
        defect("gemm: result ", shape_text(c), accumulate ? " cannot accumulate" : "");
    if ((a.spec.format == DType::f32) != (b.spec.format == DType::f32))
        defect("gemm: ", describe(a.spec), " with ", describe(b.spec));
    const Layout la = layout_of(a), lb = layout_of(b);
    const bool both_blocked = a.spec.block_k && b.spec.block_k;
    if (both_blocked && a.spec.block_k != b.spec.block_k)
        defect("gemm: K blocks of ", describe(a.spec), " and ", describe(b.spec));

    GemmProblem p;
    p.m = a.rows, p.n = b.rows, p.k = a.k;
    p.pairs = la.pairs, p.panels = lb.panels;
    p.block_pairs = std::min(a.spec.k_block(), b.spec.k_block()) / 2;
    p.a = static_cast<const char*>(a.data), p.a_type = la.element;
    p.a_stride = la.stride * static_cast<int64_t>(size_of(la.element));
    p.b = static_cast<const char*>(b.data), p.b_type = lb.element;
    p.pair_bytes = static_cast<int64_t>(lb.pair_bytes()),
    p.panel_bytes = static_cast<int64_t>(lb.panel_bytes());
    p.sa = p.sb = &one;
    if (la.granularity == Granularity::row) p.sa = a.scales, p.sa_row = la.blocks, p.sa_step = 1;
    if (lb.granularity == Granularity::square) p.sb = b.scales, p.sb_square = lb.blocks, p.sb_step = 1;
    if (lb.granularity == Granularity::row) {
        p.sb = b.scales, p.sb_panel = lb.blocks * panel_columns, p.sb_step = panel_columns;
        p.column_scales = true;
    }
    FlushToZero flush;  // the product of scales is part of the sum
    volatile float scale = la.granularity == Granularity::tensor ? a.scales[0] : 1.0f;
    if (lb.granularity == Granularity::tensor) scale = scale * b.scales[0];
    p.total_scale = scale;
    p.c = c.data, p.c_type = c.dtype, p.accumulate = accumulate;
    return p;
}

GemmRange pick(const GemmProblem& p) {
#if FP8RL_X86
    switch (simd()) {
        case Simd::scalar: break;
        case Simd::avx2: return gemm_range_avx2;
        case Simd::avx512: return gemm_range_avx512;
        case Simd::avx512_bf16: return p.a_type == DType::f32 ? gemm_range_avx512 : gemm_range_dot;
    }
#endif
    (void)p;
    return gemm_range_scalar;
}

// How C is cut: several pieces a thread, so that a slow one is helped, but not so small that expanding a
// panel weighs.
struct Split {
    int64_t rows, panels;  // of a piece
};

Split split_of(const GemmProblem& p, int64_t threads) {
    constexpr int64_t few_rows = 12, least_rows = 48, most_panels = 8;
    const int64_t pieces = threads == 1 ? 1 : 4 * threads;
    const auto ceil_to = [](int64_t n, int64_t d, int64_t step) {
        return ((n + d - 1) / d + step - 1) / step * step;
    };
    if (p.m <= few_rows) return {p.m, ceil_to(p.panels, pieces, 1)};
    const int64_t across = std::clamp<int64_t>(p.panels / most_panels, 1, pieces);
    const int64_t down =
        std::clamp<int64_t>((pieces + across - 1) / across, 1, std::max<int64_t>(1, p.m / least_rows));
    return {ceil_to(p.m, down, few_rows), ceil_to(p.panels, across, 1)};
}

}  // namespace

void gemm(Tensor c, const Operand& a, const Operand& b, bool accumulate) {
    const GemmProblem p = problem_of(c, a, b, accumulate);
    if (p.m == 0 || p.n == 0) return;
    if (p.k == 0) {
        if (!accumulate) std::memset(c.data, 0, c.bytes());
        return;
    }
    const GemmRange range = pick(p);
    const Split split = split_of(p, parallel::threads());
    const int64_t down = (p.m + split.rows - 1) / split.rows,
                  across = (p.panels + split.panels - 1) / split.panels;
    parallel::for_each(down * across, [&](int64_t i, int) {
        const int64_t row = i % down * split.rows, panel = i / down * split.panels;
        FlushToZero flush;
        range(p, row, std::min(row + split.rows, p.m), panel, std::min(panel + split.panels, p.panels),
              thread_scratch());
    });
}

}  // namespace fp8rl::cpu
