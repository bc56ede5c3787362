#include "cpu/rows.h"

#include <cstring>

#include "core/parallel.h"

namespace fp8rl::cpu {

static void check_rows(const char* op, const Tensor& few, const Tensor& all, std::span<const int32_t> rows) {
    check(
        few.dtype == all.dtype && few.cols() == all.cols() && few.rows() == static_cast<int64_t>(rows.size()),
        op, ": ", shape_text(few), " and ", shape_text(all), " for ", rows.size(), " rows");
    for (int32_t r : rows) check(r >= 0 && r < all.rows(), op, ": row ", r, " of ", all.rows());
}

void gather_rows(Tensor out, Tensor in, std::span<const int32_t> rows) {
    check_rows("gather_rows", out, in, rows);
    const size_t bytes = static_cast<size_t>(in.cols()) * size_of(in.dtype);
    auto* to = static_cast<char*>(out.data);
    const auto* from = static_cast<const char*>(in.data);
    parallel::for_range(static_cast<int64_t>(rows.size()), 64, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) std::memcpy(to + i * bytes, from + rows[i] * bytes, bytes);
    });
}

void scatter_rows(Tensor out, Tensor in, std::span<const int32_t> rows) {
    check_rows("scatter_rows", in, out, rows);
    const size_t bytes = static_cast<size_t>(in.cols()) * size_of(in.dtype);
    auto* to = static_cast<char*>(out.data);
    const auto* from = static_cast<const char*>(in.data);
    if (out.bytes()) std::memset(out.data, 0, out.bytes());
    parallel::for_range(static_cast<int64_t>(rows.size()), 64, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) std::memcpy(to + rows[i] * bytes, from + i * bytes, bytes);
    });
}

}  // namespace fp8rl::cpu
