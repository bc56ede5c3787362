// cpu/adamw: one pass over memory for the update; the norm in blocks of 4,096, added in FP64 in block order.
#include "cpu/adamw.h"

#include <algorithm>

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/buffer.h"
#include "cpu/cpu_backend.h"
#include "cpu/vec.h"

#define FP8RL_KERNELS "cpu/adamw_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

double sum_squares(Tensor x) {
    constexpr int64_t block = 4096;
    static Buffer buffer;
    const int64_t n = x.size(), blocks = (n + block - 1) / block;
    const float* values = x.as<float>();
    float* sums = buffer.array<float>(static_cast<size_t>(blocks));
    const auto squares = FP8RL_PICK(squares_of_block);
    parallel::for_range(blocks, 4, [&](int64_t begin, int64_t end, int) {
        for (int64_t b = begin; b < end; ++b)
            sums[b] = squares(values + b * block, std::min(block, n - b * block));
    });
    double total = 0;
    for (int64_t b = 0; b < blocks; ++b) total += sums[b];
    return total;
}

void adamw(Tensor master, Tensor grad, Tensor m, Tensor v, const AdamwParams& p) {
    check(grad.size() == master.size() && m.size() == master.size() && v.size() == master.size() &&
              m.dtype == v.dtype,
          "adamw: master ", shape_text(master), ", grad ", shape_text(grad), ", m ", shape_text(m), ", v ",
          shape_text(v));
    with_act("adamw", m.dtype, [&](auto zero) {
        using M = decltype(zero);
        const auto range = FP8RL_PICK(adamw_range<M>);
        parallel::for_range(master.size(), 8192, [&](int64_t begin, int64_t end, int) {
            range(master.as<float>() + begin, grad.as<float>() + begin, m.as<M>() + begin, v.as<M>() + begin,
                  p, end - begin);
        });
    });
}

}  // namespace fp8rl::cpu
