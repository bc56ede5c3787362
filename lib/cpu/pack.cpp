// cpu/pack: see the header. A square of the operand is turned into 16-bit words row by row as the source lies
// (along K or across it), two neighbours of K are joined into one 32-bit word, and the words are turned where
// the operand runs the other way.
#include "cpu/pack.h"

#include <algorithm>
#include <cstring>

namespace fp8rl::cpu {

namespace {

int64_t ceil_div(int64_t n, int64_t d) { return (n + d - 1) / d; }

float as_float(float x) { return x; }
float as_float(bf16 x) { return to_float(x); }

// Rows whose distance is a multiple of 4 KiB share a cache set: a tile of 12 would evict itself.
int64_t row_stride(int64_t k) {
    const int64_t even = (k + 1) / 2 * 2;
    return even > 0 && even % 2048 == 0 ? even + 32 : even;
}

// Byte of code (column, odd) within a pair of 64 codes: 16-byte lanes hold four columns of the first half,
// then the same four of the second.
size_t code_position(int64_t column, int64_t odd) {
    const int64_t half = column / 16, lane = column % 16 / 4, place = column % 4;
    return static_cast<size_t>(lane * 16 + half * 8 + place * 2 + odd);
}

}  // namespace

Layout layout_of(const QuantSpec& spec, Side side, int64_t rows, int64_t k) {
    Layout l;
    l.pairs = (k + 1) / 2;
    l.block_k = spec.k_block();
    l.blocks = ceil_div(k, l.block_k);
    l.element = spec.format;
    if (spec.quantized()) {
        const bool square = spec.block_rows == unit && spec.block_k == unit && side == Side::b;
        const bool row = spec.block_rows == 1 && (spec.block_k == unit || spec.block_k == 32);
        if (!spec.whole_tensor() && !square && !row)
            defect("no operand layout on side ", side == Side::a ? "a" : "b", " for ", describe(spec));
        l.granularity = row ? Granularity::row : square ? Granularity::square : Granularity::tensor;
        if (side == Side::a) l.element = DType::bf16;
    } else {
        if (spec.format != DType::bf16 && spec.format != DType::f32)
            defect("no operand layout for ", describe(spec));
    }
    l.panels = side == Side::b ? ceil_div(rows, panel_columns) : 0;
    // Plain rows may be a view of the caller's tensor, so only code images choose their distance.
    if (side == Side::a) l.stride = spec.quantized() ? row_stride(k) : l.pairs * 2;
    l.data_bytes = side == Side::a ? static_cast<size_t>(rows * l.stride) * size_of(l.element)
                                   : static_cast<size_t>(l.panels) * l.panel_bytes();
    switch (l.granularity) {
        case Granularity::none: break;
        case Granularity::tensor: l.scales = 1; break;
        case Granularity::square: l.scales = ceil_div(rows, unit) * l.blocks; break;
        case Granularity::row:
            l.scales = (side == Side::a ? rows : l.panels * panel_columns) * l.blocks;
            break;
    }
    return l;
}

int64_t Layout::scale_index(Side side, int64_t row, int64_t k) const {
    const int64_t block = k / block_k;
    switch (granularity) {
        case Granularity::square: return row / unit * blocks + block;
        case Granularity::row:
            return side == Side::a
                       ? row * blocks + block
                       : (row / panel_columns * blocks + block) * panel_columns + row % panel_columns;
        default: return 0;
    }
}

size_t Layout::offset(Side side, int64_t row, int64_t k) const {
    if (side == Side::a) return static_cast<size_t>(row * stride + k) * size_of(element);
    const size_t pair =
        static_cast<size_t>(row / panel_columns) * panel_bytes() + static_cast<size_t>(k / 2) * pair_bytes();
    const int64_t column = row % panel_columns;
    switch (element) {
        case DType::f32: return pair + static_cast<size_t>(k % 2 * panel_columns + column) * 4;
        case DType::bf16: return pair + static_cast<size_t>(column * 2 + k % 2) * 2;
        default: return pair + code_position(column, k % 2);
    }
}

Operand allocate_operand(const QuantSpec& spec, Side side, int64_t rows, int64_t k, Arena& arena) {
    const Layout l = layout_of(spec, side, rows, k);
    Operand o;
    o.rows = rows, o.k = k, o.spec = spec, o.side = side;
    o.data = arena.allocate(l.data_bytes);
    if (l.scales) o.scales = arena.array<float>(static_cast<size_t>(l.scales));
    return o;
}

Packer::Packer(const Operand& o, bool transpose, const Scale& whole, bool count, bool watch)
    : out_(o),
      layout_(layout_of(o)),
      transpose_(transpose),
      count_(count),
      watch_(watch),
      whole_(whole),
      kernels_(cast_kernels()) {
    if (layout_.granularity == Granularity::tensor) out_.scales[0] = whole.stored;
}

Scale Packer::scale(uint32_t amax_bits) const { return scale_of(out_.spec, float_of_bits(amax_bits)); }

// What the cast takes: a multiplier, or the divisor of rule vllm.
float Packer::factor(const Scale& s) const {
    return out_.spec.rule == ScaleRule::vllm ? s.stored : s.multiplier;
}

namespace {

template <class T>
CastFn<T> pick_cast(const CastKernels& k, const QuantSpec& spec, Side side, bool columns, bool count) {
    const Tally tally = spec.rule == ScaleRule::vllm ? Tally::vllm : count ? Tally::all : Tally::none;
    const Word word = side == Side::a ? Word::image : Word::code;
    return k.of<T>()
        .cast[spec.format == DType::e5m2][static_cast<int>(word)][columns][static_cast<int>(tally)];
}

void add(Seen& seen, int64_t values, const CastCounts& c) {
    seen.counts.values += static_cast<uint64_t>(values);
    seen.counts.saturated += c.saturated;
    seen.counts.flushed += c.flushed;
}

}  // namespace

template <class T>
void Packer::rows(const T* source, int64_t ld, int64_t row, int64_t count, Seen& seen) const {
    const int64_t k = out_.k, stride = layout_.stride;
    const auto& kernels = kernels_.of<T>();
    if (layout_.element == DType::f32) {
        for (int64_t r = 0; r < count; ++r) {
            const T* x = source + r * ld;
            float* out = static_cast<float*>(out_.data) + (row + r) * stride;
            if (k % 2) out[k] = 0;
            for (int64_t c = 0; c < k; ++c) out[c] = as_float(x[c]);
            if (watch_) seen.amax_bits = std::max(seen.amax_bits, kernels.amax(x, k));
        }
        return;
    }
    const CastFn<T> cast = pick_cast<T>(kernels_, out_.spec, out_.side, false, count_);
    CastCounts counts;
    for (int64_t r = 0; r < count; ++r) {
        const T* x = source + r * ld;
        uint16_t* out = static_cast<uint16_t*>(out_.data) + (row + r) * stride;
        if (k % 2) out[k] = 0;
        if (layout_.granularity == Granularity::row) {
            float* scales = out_.scales + (row + r) * layout_.blocks;
            for (int64_t c = 0; c < k; c += layout_.block_k) {
                const int64_t n = std::min(layout_.block_k, k - c);
                const uint32_t bits = kernels.amax(x + c, n);
                seen.amax_bits = std::max(seen.amax_bits, bits);
                const Scale s = scale(bits);
                *scales++ = s.stored;
                const float f = factor(s);
                cast(x + c, &f, n, out + c, counts);
            }
        } else {
            if (watch_) seen.amax_bits = std::max(seen.amax_bits, kernels.amax(x, k));
            const float f = factor(whole_);
            if (out_.spec.quantized())
                cast(x, &f, k, out, counts);
            else
                kernels.round(x, k, out);
        }
    }
    add(seen, count * k, counts);
}

// `words`: 32 of side b's columns (or 32 rows of side a) for each of `pairs` pairs, [pair][32].
void Packer::write_pairs(const uint32_t* words, int64_t row, int64_t k, int64_t pairs) const {
    char* to = static_cast<char*>(out_.data) + layout_.offset(Side::b, row, k);
    if (layout_.element == DType::bf16)
        std::memcpy(to, words, static_cast<size_t>(pairs) * layout_.pair_bytes());
    else
        for (int64_t p = 0; p < pairs; ++p)
            kernels_.pack_codes(words + p * panel_columns, reinterpret_cast<uint8_t*>(to) + p * 64);
}

template <class T>
void Packer::along_k(const T* source, int64_t ld, int64_t row, int64_t k, const Scale* shared,
                     Seen& seen) const {
    const int64_t rows = std::min(panel_columns, out_.rows - row), n = std::min(unit, out_.k - k);
    const int64_t pairs = (n + 1) / 2;
    const auto& kernels = kernels_.of<T>();
    const bool quantized = out_.spec.quantized();
    const CastFn<T> cast = quantized ? pick_cast<T>(kernels_, out_.spec, out_.side, false, count_) : nullptr;
    alignas(64) uint16_t tile[panel_columns][unit];
    alignas(64) uint32_t words[unit / 2][panel_columns];
    if (rows < panel_columns || n < unit) std::memset(tile, 0, sizeof tile);
    CastCounts counts;
    for (int64_t r = 0; r < rows; ++r) {
        const T* x = source + r * ld;
        if (!quantized) {
            kernels.round(x, n, tile[r]);
        } else if (shared) {
            const float f = factor(*shared);
            cast(x, &f, n, tile[r], counts);
        } else {
            for (int64_t c = 0; c < n; c += layout_.block_k) {
                const int64_t width = std::min(layout_.block_k, n - c);
                const uint32_t bits = kernels.amax(x + c, width);
                seen.amax_bits = std::max(seen.amax_bits, bits);
                const Scale s = scale(bits);
                out_.scales[layout_.scale_index(Side::b, row + r, k + c)] = s.stored;
                const float f = factor(s);
                cast(x + c, &f, width, tile[r] + c, counts);
            }
        }
    }
    if (layout_.granularity == Granularity::row)
        for (int64_t r = rows; r < panel_columns; ++r)
            for (int64_t c = 0; c < n; c += layout_.block_k)
                out_.scales[layout_.scale_index(Side::b, row + r, k + c)] = 1.0f;
    kernels_.transpose(reinterpret_cast<const uint32_t*>(&tile[0][0]), unit / 2, panel_columns,
                       std::min(unit / 2, (pairs + 15) / 16 * 16), &words[0][0], panel_columns);
    write_pairs(&words[0][0], row, k, pairs);
    add(seen, rows * n, counts);
}

template <class T>
void Packer::across_k(const T* source, int64_t ld, int64_t row, int64_t k, const Scale* shared,
                      Seen& seen) const {
    const int64_t rows = std::min(panel_columns, out_.rows - row), n = std::min(unit, out_.k - k);
    const int64_t pairs = (n + 1) / 2;
    const auto& kernels = kernels_.of<T>();
    const bool quantized = out_.spec.quantized();
    const CastFn<T> cast =
        quantized ? pick_cast<T>(kernels_, out_.spec, out_.side, !shared, count_) : nullptr;
    alignas(64) uint32_t words[unit / 2][panel_columns];
    alignas(64) uint16_t pair[2][panel_columns] = {};
    CastCounts counts;
    const int64_t step = layout_.granularity == Granularity::row ? layout_.block_k : unit;
    for (int64_t c = 0; c < n; c += step) {
        const int64_t depth = std::min(step, n - c);
        float factors[panel_columns] = {};
        if (shared) {
            factors[0] = factor(*shared);
        } else if (quantized) {
            uint32_t bits[panel_columns] = {};
            kernels.amax_columns(source + c * ld, ld, depth, rows, bits);
            for (int64_t r = 0; r < panel_columns; ++r) {
                if (out_.side == Side::a && r >= rows) break;
                seen.amax_bits = std::max(seen.amax_bits, bits[r]);
                const Scale s = scale(bits[r]);
                out_.scales[layout_.scale_index(out_.side, row + r, k + c)] = s.stored;
                factors[r] = factor(s);
            }
        }
        for (int64_t i = 0; i < depth; i += 2) {
            for (int64_t odd = 0; odd < 2; ++odd) {
                const T* x = source + (c + i + odd) * ld;
                if (i + odd >= depth)
                    std::memset(pair[odd], 0, sizeof pair[odd]);
                else if (quantized)
                    cast(x, factors, rows, pair[odd], counts);
                else
                    kernels.round(x, rows, pair[odd]);
            }
            kernels_.interleave(pair[0], pair[1], words[(c + i) / 2]);
        }
    }
    add(seen, rows * n, counts);
    if (out_.side == Side::b) return write_pairs(&words[0][0], row, k, pairs);
    alignas(64) uint32_t turned[panel_columns][unit / 2];
    kernels_.transpose(&words[0][0], panel_columns, std::min(unit / 2, (pairs + 15) / 16 * 16), panel_columns,
                       &turned[0][0], unit / 2);
    for (int64_t r = 0; r < rows; ++r)
        std::memcpy(static_cast<char*>(out_.data) + layout_.offset(Side::a, row + r, k), turned[r],
                    static_cast<size_t>(pairs) * 4);
}

// F32 operands exist for the fp32 recipe alone: plain loops.
template <class T>
void Packer::square_f32(const T* source, int64_t ld, int64_t row, int64_t k) const {
    const int64_t rows_end = out_.side == Side::b ? layout_.panels * panel_columns : out_.rows;
    for (int64_t r = row; r < std::min(row + unit, rows_end); ++r)
        for (int64_t c = k; c < std::min(k + unit, layout_.pairs * 2); ++c) {
            const bool inside = r < out_.rows && c < out_.k;
            const int64_t i = transpose_ ? (c - k) * ld + r - row : (r - row) * ld + c - k;
            const float v = inside ? as_float(source[i]) : 0.0f;
            std::memcpy(static_cast<char*>(out_.data) + layout_.offset(out_.side, r, c), &v, 4);
        }
}

template <class T>
void Packer::square(const T* source, int64_t ld, int64_t row, int64_t k, Seen& seen) const {
    const int64_t rows = std::min(unit, out_.rows - row), n = std::min(unit, out_.k - k);
    const bool turned = transpose_;
    const int64_t lines = turned ? n : rows, length = turned ? rows : n;  // as the source lies
    uint32_t bits = 0;
    if (layout_.granularity == Granularity::square || (watch_ && layout_.granularity != Granularity::row)) {
        for (int64_t i = 0; i < lines; ++i)
            bits = std::max(bits, kernels_.of<T>().amax(source + i * ld, length));
        seen.amax_bits = std::max(seen.amax_bits, bits);
    }
    if (layout_.element == DType::f32) return square_f32(source, ld, row, k);
    Scale shared = whole_;
    if (layout_.granularity == Granularity::square) {
        shared = scale(bits);
        out_.scales[layout_.scale_index(out_.side, row, k)] = shared.stored;
    }
    const Scale* one = layout_.granularity == Granularity::row ? nullptr : &shared;
    for (int64_t r = 0; r < rows; r += panel_columns) {
        if (turned)
            across_k(source + r, ld, row + r, k, one, seen);
        else
            along_k(source + r * ld, ld, row + r, k, one, seen);
    }
}

template void Packer::square(const float*, int64_t, int64_t, int64_t, Seen&) const;
template void Packer::square(const bf16*, int64_t, int64_t, int64_t, Seen&) const;
template void Packer::rows(const float*, int64_t, int64_t, int64_t, Seen&) const;
template void Packer::rows(const bf16*, int64_t, int64_t, int64_t, Seen&) const;

}  // namespace fp8rl::cpu
