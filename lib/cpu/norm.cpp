// cpu/norm: rows in parallel; the gain's gradient in fixed groups of rows (cpu/groups), so that threads do
// not show in it. Shapes that do not fit are defects.
#include "cpu/norm.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/buffer.h"
#include "cpu/cpu_backend.h"
#include "cpu/groups.h"
#include "cpu/vec.h"

#define FP8RL_KERNELS "cpu/norm_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

void add_rmsnorm(Tensor y, Tensor r_out, Tensor rstd, Tensor residual, Tensor delta, Tensor gain, float eps) {
    const int64_t rows = residual.rows(), n = residual.cols();
    check(same_shape(y, residual) && y.dtype == residual.dtype && rstd.size() == rows && gain.size() == n &&
              (!delta || (same_shape(delta, residual) && delta.dtype == residual.dtype && r_out)) &&
              (!r_out || (same_shape(r_out, residual) && r_out.dtype == residual.dtype)),
          "add_rmsnorm: y ", shape_text(y), ", residual ", shape_text(residual), ", delta ",
          shape_text(delta), ", r_out ", shape_text(r_out), ", rstd ", shape_text(rstd), ", gain ",
          shape_text(gain));
    with_act("add_rmsnorm", residual.dtype, [&](auto zero) {
        using T = decltype(zero);
        const auto row = FP8RL_PICK(rmsnorm_row<T>);
        T *to = y.as<T>(), *from = residual.as<T>();
        T* sum = r_out ? r_out.as<T>() : from;
        const T* added = delta ? delta.as<T>() : nullptr;
        parallel::for_range(rows, 8, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i)
                rstd.as<float>()[i] = row(to + i * n, sum + i * n, from + i * n,
                                          added ? added + i * n : nullptr, gain.as<float>(), eps, n);
        });
    });
}

void rmsnorm_backward(Tensor dresidual, Tensor dgain, Tensor dy, Tensor x, Tensor rstd, Tensor gain,
                      bool overwrite) {
    const int64_t rows = x.rows(), n = x.cols();
    check(same_shape(dresidual, x) && dresidual.dtype == x.dtype && same_shape(dy, x) &&
              rstd.size() == rows && gain.size() == n && dgain.size() == n,
          "rmsnorm_backward: dresidual ", shape_text(dresidual), ", dy ", shape_text(dy), ", x ",
          shape_text(x), ", rstd ", shape_text(rstd), ", gain ", shape_text(gain), ", dgain ",
          shape_text(dgain));
    with_act("rmsnorm_backward", x.dtype, [&](auto zero) {
        using T = decltype(zero);
        with_act("rmsnorm_backward", dy.dtype, [&](auto dy_zero) {
            using G = decltype(dy_zero);
            const auto row = FP8RL_PICK(rmsnorm_backward_row<T, G>);
            sum_row_groups(dgain, rows, FP8RL_PICK(add_groups), [&](float* partial, int64_t i) {
                row(dresidual.as<T>() + i * n, partial, dy.as<G>() + i * n, x.as<T>() + i * n,
                    gain.as<float>(), rstd.as<float>()[i], overwrite, n);
            });
        });
    });
}

}  // namespace fp8rl::cpu
