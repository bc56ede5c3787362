// cpu/pack: how operands lie in memory, and the code that lays them down.
//
// Side a: rows of BF16 (FP8 codes as the BF16 numbers they stand for, which is exact) or F32, `stride`
// elements apart. Side b: panels of 32 columns of C; in a panel one pair of K after another, each pair 32
// columns times 2 elements: BF16 words (128 bytes), F32 (two runs of 32 floats, 256 bytes), or FP8 codes (64
// bytes, permuted within 16-byte lanes so that unpacking bytes yields columns in order). The last panel and
// an odd K are padded with zeros. Scales: one per tensor; [rows / 128][blocks of K]; side a [rows][blocks];
// side b with a scale per row [panel][blocks][32].
#pragma once
#include "backend/types.h"
#include "cpu/cast.h"
#include "quant/scales.h"

namespace fp8rl::cpu {

inline constexpr int64_t panel_columns = 32;
inline constexpr int64_t unit = 128;  // side of the square that packing works on: the largest scale block

enum class Granularity { none, tensor, square, row };

struct Layout {
    DType element = DType::bf16;  // as stored: f32, bf16, e4m3, e5m2
    Granularity granularity = Granularity::none;
    int64_t stride = 0;     // side a: elements between rows
    int64_t pairs = 0;      // ceil(K / 2)
    int64_t panels = 0;     // side b
    int64_t block_k = 128;  // elements of K that share a scale
    int64_t blocks = 0;     // of K
    size_t pair_bytes() const { return panel_columns * 2 * size_of(element); }
    size_t panel_bytes() const { return static_cast<size_t>(pairs) * pair_bytes(); }
    size_t data_bytes = 0;
    int64_t scales = 0;
    // Where the scale of element (row, k) lies.
    int64_t scale_index(Side side, int64_t row, int64_t k) const;
    // Byte offset of element (row, k).
    size_t offset(Side side, int64_t row, int64_t k) const;
};

// A spec that these layouts cannot hold is a defect.
Layout layout_of(const QuantSpec& spec, Side side, int64_t rows, int64_t k);
inline Layout layout_of(const Operand& o) { return layout_of(o.spec, o.side, o.rows, o.k); }

// Memory for an operand; scales are left to the packer.
Operand allocate_operand(const QuantSpec& spec, Side side, int64_t rows, int64_t k, Arena& arena);

// What packing saw; merged over chunks of work without regard to order.
struct Seen {
    uint32_t amax_bits = 0;
    QuantCounts counts;
};

// Writes an operand piece by piece. The source is BF16 or F32; element (row, k) of the operand is
// source[row * ld + k], or source[k * ld + row] when transposed.
class Packer {
  public:
    // `whole`: the tensor's scale, where the spec has one for the whole tensor. `watch`: amax is wanted.
    Packer(const Operand& o, bool transpose, const Scale& whole, bool count, bool watch);

    // The square of the operand at (row, k), both multiples of `unit`; `source` points at that element.
    template <class T>
    void square(const T* source, int64_t ld, int64_t row, int64_t k, Seen& seen) const;
    // Whole rows of side a, not transposed; `source` points at (row, 0).
    template <class T>
    void rows(const T* source, int64_t ld, int64_t row, int64_t count, Seen& seen) const;

    const Layout& layout() const { return layout_; }

  private:
    Scale scale(uint32_t amax_bits) const;
    float factor(const Scale& s) const;
    template <class T>
    void along_k(const T* source, int64_t ld, int64_t row, int64_t k, const Scale* shared, Seen& seen) const;
    template <class T>
    void across_k(const T* source, int64_t ld, int64_t row, int64_t k, const Scale* shared, Seen& seen) const;
    template <class T>
    void square_f32(const T* source, int64_t ld, int64_t row, int64_t k) const;
    void write_pairs(const uint32_t* words, int64_t row, int64_t k, int64_t pairs) const;

    Operand out_;
    Layout layout_;
    bool transpose_, count_, watch_;
    Scale whole_;
    const CastKernels& kernels_;
};

}  // namespace fp8rl::cpu
