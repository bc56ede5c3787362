// cpu/gemm_range: the blocking shared by the vector paths. A group of panels that fits the second-level cache
// (expanded from codes where need be, once) meets one tile of rows after another. When K is long it is walked
// in chunks and the totals wait in scratch between them; the sums are the same either way.
#pragma once
#include "cpu/gemm_problem.h"
#include "cpu/pack.h"
#include "cpu/thread_scratch.h"

namespace fp8rl::cpu {

// Rows of the next tile: full tiles, the last two shared evenly.
inline int64_t tile_rows(int64_t left, int64_t most) {
    return left <= most ? left : left <= 2 * most ? (left + 1) / 2 : most;
}

inline void finish_tile(const GemmProblem& p, void (*finish)(const GemmFinish&), const float* totals,
                        int64_t row, int64_t rows, int64_t panel) {
    const int64_t column = panel * panel_columns;
    const int64_t size = static_cast<int64_t>(size_of(p.c_type));
    finish({totals, rows, std::min(panel_columns, p.n - column), p.total_scale, p.accumulate,
            p.c_type == DType::bf16, static_cast<char*>(p.c) + (row * p.n + column) * size, p.n * size});
}

// Engine: image_type (what its tiles read of B), image_pair_bytes, most_rows (of a tile), whole_pairs (K up
// to here stays in one piece), chunk_pairs (else), stage(problem, row, rows, pair, pairs, to, stride) -> rows
// of A as tiles read them, copied to `to` where needed; tile(tile, rows); first_tile(tile, rows): the same
// from codes (tile.b), leaving the image in tile.image; finish.
template <class Engine>
void gemm_range(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                char* scratch) {
    constexpr int64_t image_budget = 512 << 10, most_group = 8, totals_rows = 192;
    const bool direct = p.b_type == Engine::image_type;
    const bool whole = p.pairs <= Engine::whole_pairs;
    const int64_t chunk = whole ? p.pairs : Engine::chunk_pairs;
    const int64_t image_bytes = chunk * Engine::image_pair_bytes;
    const int64_t group =
        std::clamp<int64_t>(image_budget / std::max<int64_t>(1, image_bytes), 1, most_group);

    char* images = scratch;
    float* totals = reinterpret_cast<float*>(images + image_budget);
    constexpr int64_t totals_bytes = totals_rows * most_group * panel_columns * 4;
    char* staged = reinterpret_cast<char*>(totals) + totals_bytes;
    static_assert(image_budget + totals_bytes + Engine::staged_bytes <=
                  static_cast<int64_t>(thread_scratch_bytes));
    static_assert(Engine::whole_pairs * Engine::image_pair_bytes <= image_budget);

    const int64_t height = whole ? row_end - row : totals_rows;
    for (int64_t top = row; top < row_end; top += height)
        for (int64_t g = panel; g < panel_end; g += group) {
            const int64_t bottom = std::min(top + height, row_end), g_end = std::min(g + group, panel_end);
            for (int64_t pair = 0; pair < p.pairs; pair += chunk) {
                const int64_t pairs = std::min(chunk, p.pairs - pair), block = pair / p.block_pairs;
                const bool last = pair + pairs == p.pairs;
                for (int64_t m = top, rows; m < bottom; m += rows) {
                    rows = tile_rows(bottom - m, Engine::most_rows);
                    GemmTile t{};
                    t.a = Engine::stage(p, m, rows, pair, pairs, staged, t.a_stride);
                    t.pairs = pairs, t.block_pairs = p.block_pairs;
                    t.sa = p.sa + m * p.sa_row + block * p.sa_step, t.sa_row = p.sa_row,
                    t.sa_step = p.sa_step;
                    t.sb_step = p.sb_step;
                    t.fresh = pair == 0;
                    t.e5m2 = p.b_type == DType::e5m2;
                    for (int64_t j = g; j < g_end; ++j) {
                        const char* source = p.b + j * p.panel_bytes + pair * p.pair_bytes;
                        char* image = images + (j - g) * image_bytes;
                        t.sb = p.panel_scales(j) + block * p.sb_step;
                        t.totals =
                            whole ? totals : totals + ((j - g) * totals_rows + m - top) * panel_columns;
                        t.ahead = m == top ? 2048 : 0;
                        if (!direct && m == top) {
                            t.b = source, t.image = image;
                            Engine::first_tile(t, rows, p);
                        } else {
                            t.b = direct ? source : image, t.image = nullptr;
                            Engine::tile(t, rows, p);
                        }
                        if (last) finish_tile(p, Engine::finish, t.totals, m, rows, j);
                    }
                }
            }
        }
}

}  // namespace fp8rl::cpu
