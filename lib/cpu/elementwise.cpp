// cpu/elementwise: any split of the elements gives the same values, so work is cut as suits the threads;
// column sums go through cpu/groups. Shapes or types that do not fit are defects.
#include "cpu/elementwise.h"

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/cpu_backend.h"
#include "cpu/groups.h"
#include "cpu/vec.h"

#define FP8RL_KERNELS "cpu/elementwise_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

constexpr int64_t grain = 8192;  // elements a task: some microseconds

void add(Tensor y, Tensor x) {
    check(same_shape(y, x), "add: ", shape_text(y), " += ", shape_text(x));
    with_act("add", y.dtype, [&](auto y_zero) {
        with_act("add", x.dtype, [&](auto x_zero) {
            using Y = decltype(y_zero);
            using X = decltype(x_zero);
            const auto range = FP8RL_PICK(add_range<Y, X>);
            parallel::for_range(y.size(), grain, [&](int64_t begin, int64_t end, int) {
                range(y.as<Y>() + begin, x.as<X>() + begin, end - begin);
            });
        });
    });
}

void add_bias(Tensor y, Tensor bias) {
    const int64_t n = y.cols();
    check(bias.size() == n, "add_bias: ", shape_text(y), " += ", shape_text(bias));
    with_act("add_bias", y.dtype, [&](auto zero) {
        using T = decltype(zero);
        const auto range = FP8RL_PICK(add_range<T, float>);
        parallel::for_range(y.rows(), 16, [&](int64_t begin, int64_t end, int) {
            for (int64_t i = begin; i < end; ++i) range(y.as<T>() + i * n, bias.as<float>(), n);
        });
    });
}

void bias_backward(Tensor dbias, Tensor dy) {
    const int64_t n = dy.cols();
    check(dbias.size() == n, "bias_backward: ", shape_text(dbias), " from ", shape_text(dy));
    with_act("bias_backward", dy.dtype, [&](auto zero) {
        using T = decltype(zero);
        const auto range = FP8RL_PICK(add_range<float, T>);
        sum_row_groups(dbias, dy.rows(), FP8RL_PICK(add_groups),
                       [&](float* partial, int64_t i) { range(partial, dy.as<T>() + i * n, n); });
    });
}

void swiglu(Tensor y, Tensor gate, Tensor up) {
    check(same_shape(y, gate) && same_shape(y, up) && y.dtype == gate.dtype && y.dtype == up.dtype,
          "swiglu: y ", shape_text(y), ", gate ", shape_text(gate), ", up ", shape_text(up));
    with_act("swiglu", y.dtype, [&](auto zero) {
        using T = decltype(zero);
        const auto range = FP8RL_PICK(swiglu_range<T>);
        parallel::for_range(y.size(), grain, [&](int64_t begin, int64_t end, int) {
            range(y.as<T>() + begin, gate.as<T>() + begin, up.as<T>() + begin, end - begin);
        });
    });
}

void swiglu_backward(Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) {
    for (const Tensor& t : {dgate, dup, dy, up})
        check(same_shape(t, gate) && t.dtype == gate.dtype, "swiglu_backward: ", shape_text(t),
              " beside gate ", shape_text(gate));
    with_act("swiglu_backward", gate.dtype, [&](auto zero) {
        using T = decltype(zero);
        const auto range = FP8RL_PICK(swiglu_backward_range<T>);
        parallel::for_range(gate.size(), grain, [&](int64_t begin, int64_t end, int) {
            range(dgate.as<T>() + begin, dup.as<T>() + begin, dy.as<T>() + begin, gate.as<T>() + begin,
                  up.as<T>() + begin, end - begin);
        });
    });
}

}  // namespace fp8rl::cpu
