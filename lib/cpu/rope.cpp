// cpu/rope: each pair of elements is turned in FP32 and rounded once. Odd head sizes and positions outside
// the table are defects.
#include "cpu/rope.h"

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/cpu_backend.h"
#include "cpu/vec.h"

#define FP8RL_KERNELS "cpu/rope_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

void rope(Tensor x, std::span<const int32_t> positions, Tensor table, int head_dim, bool inverse) {
    check(head_dim > 0 && head_dim % 2 == 0 && x.cols() % head_dim == 0 && table.cols() == head_dim &&
              x.rows() == static_cast<int64_t>(positions.size()),
          "rope: x ", shape_text(x), ", table ", shape_text(table), ", head size ", head_dim, ", ",
          positions.size(), " positions");
    for (int32_t p : positions) check(p >= 0 && p < table.rows(), "rope: position ", p, " of ", table.rows());
    with_act("rope", x.dtype, [&](auto zero) {
        using T = decltype(zero);
        const auto rotate = FP8RL_PICK(rotate_head<T>);
        parallel::for_range(x.rows(), 16, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i)
                for (int64_t h = 0; h < x.cols(); h += head_dim)
                    rotate(x.as<T>() + i * x.cols() + h, table.as<float>() + int64_t{positions[i]} * head_dim,
                           inverse ? -1.0f : 1.0f, head_dim / 2);
        });
    });
}

}  // namespace fp8rl::cpu
