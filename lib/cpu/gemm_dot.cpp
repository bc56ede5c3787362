// cpu/gemm_dot: the AVX512_BF16 path. vdpbf16ps with flush-to-zero is the definition's two fused
// multiply-adds, element 2i+1 first. A tile is up to 12 rows by 32 columns: 24 accumulators, one BF16 pair of
// A broadcast at a time. FP8 codes become BF16 by two table look-ups in registers: on the fly for up to 12
// rows, else in the first tile that meets a panel, which leaves the image for the others. Every loop over
// accumulators is unrolled by pragma: g++ 12 keeps them in registers only then.
#include "cpu/gemm_problem.h"
#include "cpu/simd.h"

#if FP8RL_X86
#include <array>
#include <cstring>

#include "cpu/gemm_range.h"

#pragma GCC diagnostic ignored "-Wuninitialized"  // g++ 12's AVX-512 header
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"

#define FP8RL_TARGET __attribute__((target(FP8RL_AVX512_BF16 ",prefer-vector-width=512")))

namespace fp8rl::cpu {
namespace {

#include "cpu/gemm_finish.inc"

// The two bytes of the BF16 number behind each magnitude; the sign is put back afterwards.
struct alignas(64) Table {
    uint8_t low[128], high[128];
};

template <class F>
constexpr Table make_table() {
    Table t{};
    for (int i = 0; i < 128; ++i) {
        const uint32_t u = bits_of(decode<F>(static_cast<uint8_t>(i))) >> 16;
        t.low[i] = static_cast<uint8_t>(u);
        t.high[i] = static_cast<uint8_t>(u >> 8);
    }
    return t;
}
constexpr Table tables[2] = {make_table<E4m3>(), make_table<E5m2>()};

enum class From { image, codes, codes_kept };

constexpr int most_rows = 12;
// 64 codes to BF16: the pair's first sixteen columns and its last.
FP8RL_TARGET inline void expand(__m512i code, const Table& table, __m512i low0, __m512i high0, __m512i& first,
                                __m512i& second) {
    const __m512i low = _mm512_permutex2var_epi8(low0, code, _mm512_load_si512(table.low + 64));
    const __m512i high =
        _mm512_ternarylogic_epi32(_mm512_permutex2var_epi8(high0, code, _mm512_load_si512(table.high + 64)),
                                  code, _mm512_set1_epi8(static_cast<char>(0x80)), 0xf8);
    first = _mm512_unpacklo_epi8(low, high);
    second = _mm512_unpackhi_epi8(low, high);
}

template <int rows, From from, bool column_scales>
FP8RL_TARGET void tile(const GemmTile& t) {
    const Table& table = tables[t.e5m2];
    const __m512i low0 = _mm512_load_si512(table.low), high0 = _mm512_load_si512(table.high);
    constexpr int64_t pair_bytes = from == From::image ? 128 : 64;
    // With two rows the dots wait for the look-ups, so these run one pair ahead (measured: 8.2 to 7.3
    // cycles).
    constexpr bool early = from == From::codes && rows == 2;
    // Few rows wait for memory: fetched far ahead, into the second level. More rows wait for the dots.
    constexpr auto level = rows > 6 ? _MM_HINT_T0 : _MM_HINT_T1;
    const char* a = t.a;
    const char* b = t.b;
    char* image = t.image;
    for (int64_t pair = 0, block = 0; pair < t.pairs; pair += t.block_pairs, ++block) {
        const int64_t count = std::min(t.block_pairs, t.pairs - pair);
        __m512 sum[rows][2];
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) sum[m][0] = sum[m][1] = _mm512_setzero_ps();
        __m512i next_x, next_y;
        if constexpr (early) expand(_mm512_loadu_si512(b), table, low0, high0, next_x, next_y);
        for (int64_t i = 0; i < count; ++i) {
            __m512i x, y;
            _mm_prefetch(b + t.ahead, level);
            if constexpr (from == From::image) {
                _mm_prefetch(b + t.ahead + 64, level);
                x = _mm512_loadu_si512(b);
                y = _mm512_loadu_si512(b + 64);
            } else if constexpr (early) {
                x = next_x, y = next_y;
                expand(_mm512_loadu_si512(i + 1 < count ? b + pair_bytes : b), table, low0, high0, next_x,
                       next_y);
            } else {
                expand(_mm512_loadu_si512(b), table, low0, high0, x, y);
            }
            if constexpr (from == From::codes_kept) {
                _mm512_storeu_si512(image, x);
                _mm512_storeu_si512(image + 64, y);
            }
#pragma GCC unroll 16
            for (int m = 0; m < rows; ++m) {
                int two;
                std::memcpy(&two, a + m * t.a_stride, 4);
                const __m512bh v = (__m512bh)_mm512_set1_epi32(two);
                sum[m][0] = _mm512_dpbf16_ps(sum[m][0], v, (__m512bh)x);
                sum[m][1] = _mm512_dpbf16_ps(sum[m][1], v, (__m512bh)y);
            }
            a += 4;
            b += pair_bytes;
            image += 128;
        }
        const bool fresh = t.fresh && block == 0;
        const float* sa = t.sa + block * t.sa_step;
        const float* sb = t.sb + block * t.sb_step;
#pragma GCC unroll 16
        for (int m = 0; m < rows; ++m) {
            float* total = t.totals + m * panel_columns;
            const __m512 s = _mm512_set1_ps(column_scales ? sa[m * t.sa_row] : sa[m * t.sa_row] * *sb);
#pragma GCC unroll 2
            for (int j = 0; j < 2; ++j) {
                const __m512 f = column_scales ? _mm512_mul_ps(s, _mm512_loadu_ps(sb + j * 16)) : s;
                const __m512 old = fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(total + j * 16);
                _mm512_storeu_ps(total + j * 16, _mm512_fmadd_ps(sum[m][j], f, old));
            }
        }
    }
}

using TileFn = void (*)(const GemmTile&);
using TileRow = std::array<TileFn, most_rows + 1>;

template <From from, bool column_scales>
constexpr TileRow make_row() {
    return []<size_t... i>(std::index_sequence<i...>) {
        return TileRow{nullptr, tile<i + 1, from, column_scales>...};
    }
    (std::make_index_sequence<most_rows>{});
}

// [column_scales][rows]
constexpr TileRow image_tiles[2] = {make_row<From::image, false>(), make_row<From::image, true>()};
constexpr TileRow code_tiles[2] = {make_row<From::codes, false>(), make_row<From::codes, true>()};
constexpr TileRow kept_tiles[2] = {make_row<From::codes_kept, false>(), make_row<From::codes_kept, true>()};

struct DotEngine {
    static constexpr DType image_type = DType::bf16;
    static constexpr int64_t image_pair_bytes = 128, whole_pairs = 1024, chunk_pairs = 768;
    static constexpr int64_t most_rows = cpu::most_rows;
    static constexpr int64_t staged_stride = whole_pairs * 4 + 64;
    static constexpr int64_t staged_bytes = most_rows * staged_stride;

    // Rows a multiple of 4 KiB apart share a cache set; a tile of them is copied first.
    static const char* stage(const GemmProblem& p, int64_t row, int64_t rows, int64_t pair, int64_t pairs,
                             char* to, int64_t& stride) {
        const char* from = p.a + row * p.a_stride + pair * 4;
        stride = p.a_stride;
        if (p.a_stride % 4096 || rows < 8) return from;
        stride = staged_stride;
        for (int64_t r = 0; r < rows; ++r)
            std::memcpy(to + r * stride, from + r * p.a_stride, static_cast<size_t>(pairs) * 4);
        return to;
    }
    static void tile(const GemmTile& t, int64_t rows, const GemmProblem& p) {
        image_tiles[p.column_scales][static_cast<size_t>(rows)](t);
    }
    static void first_tile(const GemmTile& t, int64_t rows, const GemmProblem& p) {
        kept_tiles[p.column_scales][static_cast<size_t>(rows)](t);
    }
    static constexpr auto finish = cpu::finish;
};

// Few rows: each panel is read once, straight from memory, one stream for the hardware's prefetcher.
void few_rows(const GemmProblem& p, int64_t row, int64_t rows, int64_t panel, int64_t panel_end,
              char* scratch) {
    const TileRow* tiles = p.b_type == DType::bf16 ? image_tiles : code_tiles;
    GemmTile t{};
    t.a = p.a + row * p.a_stride, t.a_stride = p.a_stride;
    t.pairs = p.pairs, t.block_pairs = p.block_pairs;
    t.sa = p.sa + row * p.sa_row, t.sa_row = p.sa_row, t.sa_step = p.sa_step;
    t.sb_step = p.sb_step;
    t.totals = reinterpret_cast<float*>(scratch);
    t.fresh = true;
    t.ahead = rows > 6 ? 2048 : 1536;
    t.e5m2 = p.b_type == DType::e5m2;
    for (int64_t j = panel; j < panel_end; ++j) {
        t.b = p.b + j * p.panel_bytes;
        t.sb = p.panel_scales(j);
        tiles[p.column_scales][static_cast<size_t>(rows)](t);
        finish_tile(p, finish, t.totals, row, rows, j);
    }
}

}  // namespace

void gemm_range_dot(const GemmProblem& p, int64_t row, int64_t row_end, int64_t panel, int64_t panel_end,
                    char* scratch) {
    if (row_end - row <= most_rows)
        few_rows(p, row, row_end - row, panel, panel_end, scratch);
    else
        gemm_range<DotEngine>(p, row, row_end, panel, panel_end, scratch);
}

}  // namespace fp8rl::cpu
#endif
