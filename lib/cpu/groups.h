// cpu/groups: sums over rows that do not depend on threads: groups of `row_group` rows, each summed in row
// order, then the groups' sums added in order, then added to the destination.
#pragma once
#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/buffer.h"

namespace fp8rl::cpu {

using AddGroups = void(float* total, const float* partial, int64_t groups, int64_t columns, int64_t begin,
                       int64_t end);

// total f32 [C]; row(partial, i) adds row i to partial [C].
template <class Row>
void sum_row_groups(Tensor total, int64_t rows, AddGroups* add_groups, const Row& row) {
    if (rows == 0) return;
    static Buffer buffer;
    const int64_t columns = total.size(), groups = (rows + row_group - 1) / row_group;
    float* partial = buffer.array<float>(static_cast<size_t>(groups * columns));
    parallel::for_each(groups, [&](int64_t g, int) {
        float* sums = partial + g * columns;
        std::fill(sums, sums + columns, 0.0f);
        for (int64_t i = g * row_group; i < std::min(rows, (g + 1) * row_group); ++i) row(sums, i);
    });
    parallel::for_range(columns, 256, [&](int64_t begin, int64_t end, int) {
        add_groups(total.as<float>(), partial, groups, columns, begin, end);
    });
}

}  // namespace fp8rl::cpu
