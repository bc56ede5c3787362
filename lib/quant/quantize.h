// quant/quantize: the scalar reference of quantization over plain arrays. Backends must give these bytes.
// Also the state of delayed scaling, and what files and GEMM libraries need: block grids, transposed codes,
// scale layouts. Sizes that a block does not divide are the rule, not an error: an edge block uses the
// elements it has, as if zero-padded. Impossible requests (a scaling without its number, a transpose of
// 1D-scaled codes) are defects.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quant/policy.h"
#include "quant/scales.h"

namespace fp8rl {

// How a spec cuts a [rows, k] matrix: scale of element (r, c) is at (r / block_rows, c / block_k).
struct BlockGrid {
    int64_t rows = 0, k = 0;              // of the matrix
    int64_t block_rows = 1, block_k = 1;  // of a block, at least 1
    BlockGrid() = default;
    BlockGrid(const QuantSpec& spec, int64_t rows, int64_t k);
    BlockGrid(int64_t rows, int64_t k, int64_t block_rows, int64_t block_k);
    int64_t scale_rows() const { return (rows + block_rows - 1) / block_rows; }
    int64_t scale_k() const { return (k + block_k - 1) / block_k; }
    int64_t index(int64_t row, int64_t column) const {
        return row / block_rows * scale_k() + column / block_k;
    }
};

struct Quantized {
    QuantSpec spec;
    BlockGrid grid;
    std::vector<uint8_t> codes;  // [rows, k]
    std::vector<float> scales;   // stored scales [scale_rows, scale_k]
    std::vector<uint8_t> e8m0;   // their codes, for ScaleKind::e8m0
    QuantCounts counts;
};

// x [rows, k]. `multiplier` is required for Scaling::delayed and ::fixed, and only for them.
Quantized quantize_reference(std::span<const float> x, int64_t rows, int64_t k, const QuantSpec& spec,
                             const float* multiplier = nullptr);
// The other orientation: x [rows, k] as a quantized [k, rows], blocks running along `rows`.
Quantized quantize_transposed_reference(std::span<const float> x, int64_t rows, int64_t k,
                                        const QuantSpec& spec, const float* multiplier = nullptr);
std::vector<float> dequantize_reference(const Quantized& q);  // [rows, k], code * scale in FP32

// Codes and scales transposed, nothing quantized again: square blocks or whole tensors only.
Quantized transposed_codes(const Quantized& q);

// Delayed scaling of one tensor (Transformer Engine): amax of past steps, one multiplier frozen for a step.
class DelayedScale {
  public:
    DelayedScale(DType format, const PerTensorRules& rules, bool pow2 = false);
    // Raises the amax of the running step; NaN is dropped. Any number of times a step, in any order.
    void observe(float amax);
    // Closes the step: what was observed enters the history and gives the multiplier of the next. A step that
    // observed nothing (or only zeros) changes nothing; neither does a history whose amax is not finite.
    void begin_step();
    float multiplier() const { return multiplier_; }
    float stored() const { return 1.0f / multiplier_; }
    float amax_used() const { return amax_used_; }  // by the last begin_step; 0: scale kept
    // For checkpoints. history()[0] is the running step's amax, the newest closed step stands last.
    const std::vector<float>& history() const { return history_; }
    void restore(std::vector<float> history, float multiplier);

  private:
    float fmax_;  // format's largest times 2^-margin
    AmaxRule rule_;
    bool pow2_;
    std::vector<float> history_;
    float multiplier_ = 1;
    float amax_used_ = 0;
};

// ---- scale layouts of GEMM libraries and files

// cuBLASLt VEC128 for 1D blocks: [scale_k, rows padded to 4]; BLK128x128: [scale_rows, scale_k padded to 4];
// +0 in the padding.
std::vector<float> gemm_ready_scales(const Quantized& q);

// Byte offset of scale (outer, inner) in cuBLASLt's VEC32_UE8M0 buffer: tiles of 128 x 4.
int64_t swizzle_offset(int64_t outer, int64_t inner, int64_t inner_padded);
// [outer, inner] E8M0 codes as that buffer: both sizes padded to whole tiles with zero bytes.
std::vector<uint8_t> swizzle_e8m0(std::span<const uint8_t> codes, int64_t outer, int64_t inner);

// The grid of a block-quantized weight in a file: the block size comes from its `weight_block_size`, never
// from dividing shapes. Refuses a scale tensor of another shape, naming the tensor.
BlockGrid file_grid(const std::string& tensor, int64_t rows, int64_t k, int64_t scale_rows, int64_t scale_k,
                    int64_t block_rows, int64_t block_k);

// Whether a server that concatenates these matrices along rows can use their 2D block scales: every part but
// the last must be a multiple of the block.
bool fused_parts_ok(std::span<const int64_t> rows_of_parts, int64_t block_rows);

}  // namespace fp8rl
