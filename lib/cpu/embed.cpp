// cpu/embed: rows are copied; gradients of one id are added by one task, in row order. An id outside the
// table is a defect.
#include "cpu/embed.h"

#include <cstring>

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/cpu_backend.h"
#include "cpu/vec.h"

#define FP8RL_KERNELS "cpu/embed_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

void embed(Tensor y, const Weight& table, std::span<const int32_t> ids) {
    const Tensor& rows = table.rows;
    check(rows && rows.dtype == y.dtype && rows.cols() == y.cols() &&
              y.rows() == static_cast<int64_t>(ids.size()),
          "embed: y ", shape_text(y), ", table ", shape_text(rows), ", ", ids.size(), " ids");
    for (int32_t id : ids) check(id >= 0 && id < rows.rows(), "embed: id ", id, " of ", rows.rows());
    const size_t bytes = static_cast<size_t>(y.cols()) * size_of(y.dtype);
    parallel::for_range(static_cast<int64_t>(ids.size()), 64, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
            std::memcpy(static_cast<char*>(y.data) + i * bytes,
                        static_cast<char*>(rows.data) + ids[i] * bytes, bytes);
    });
}

void embed_backward(Tensor dtable, Tensor dy, std::span<const int32_t> ids) {
    const int64_t n = dy.cols();
    check(dtable.cols() == n && dy.rows() == static_cast<int64_t>(ids.size()), "embed_backward: dtable ",
          shape_text(dtable), ", dy ", shape_text(dy), ", ", ids.size(), " ids");
    for (int32_t id : ids)
        check(id >= 0 && id < dtable.rows(), "embed_backward: id ", id, " of ", dtable.rows());
    with_act("embed_backward", dy.dtype, [&](auto zero) {
        using T = decltype(zero);
        const auto row = FP8RL_PICK(accumulate_row<T>);
        // Each task owns the ids of one residue, so no two write the same row and rows keep their order.
        constexpr int64_t residues = 16;
        parallel::for_each(residues, [&](int64_t residue, int) {
            for (size_t i = 0; i < ids.size(); ++i)
                if (ids[i] % residues == residue)
                    row(dtable.as<float>() + ids[i] * n, dy.as<T>() + static_cast<int64_t>(i) * n, n);
        });
    });
}

}  // namespace fp8rl::cpu
