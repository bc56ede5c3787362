// quant/quantize: see the header. Written to be read beside the formulas; speed is the backends' work.
#include "quant/quantize.h"

#include "core/error.h"

namespace fp8rl {

BlockGrid::BlockGrid(int64_t rows_, int64_t k_, int64_t block_rows_, int64_t block_k_)
    : rows(rows_), k(k_), block_rows(block_rows_), block_k(block_k_) {
    check(rows >= 0 && k >= 0 && block_rows > 0 && block_k > 0, "block grid: ", rows, "x", k,
          " in blocks of ", block_rows, "x", block_k);
}

static int64_t extent(int32_t block, int64_t size) { return block ? block : size > 0 ? size : 1; }

BlockGrid::BlockGrid(const QuantSpec& spec, int64_t rows_, int64_t k_)
    : BlockGrid(rows_, k_, extent(spec.block_rows, rows_), extent(spec.block_k, k_)) {}

Quantized quantize_reference(std::span<const float> x, int64_t rows, int64_t k, const QuantSpec& spec,
                             const float* multiplier) {
    check(spec.quantized(), "quantize: ", name_of(spec.format), " has no codes");
    check(static_cast<int64_t>(x.size()) == rows * k, "quantize: ", x.size(), " values for ", rows, "x", k);
    check((multiplier != nullptr) == (spec.scaling != Scaling::current), "quantize: ", describe(spec),
          multiplier ? " computes its own scale" : " needs its multiplier");
    check(spec.scaling == Scaling::current || spec.whole_tensor(), "quantize: ", describe(spec),
          " cannot have a fixed scale");
    Quantized q;
    q.spec = spec;
    q.grid = BlockGrid(spec, rows, k);
    const BlockGrid& g = q.grid;

    std::vector<float> amax(static_cast<size_t>(g.scale_rows() * g.scale_k()), 0.0f);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < k; ++c) {
            float& a = amax[static_cast<size_t>(g.index(r, c))];
            a = amax_of(a, x[static_cast<size_t>(r * k + c)]);
        }
    std::vector<Scale> scales;
    for (float a : amax) {
        scales.push_back(multiplier ? scale_of_multiplier(*multiplier) : scale_of(spec, a));
        q.scales.push_back(scales.back().stored);
        if (spec.scale == ScaleKind::e8m0) q.e8m0.push_back(scales.back().e8m0);
    }

    q.codes.resize(x.size());
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < k; ++c) {
            const size_t i = static_cast<size_t>(r * k + c);
            const Scale& s = scales[static_cast<size_t>(g.index(r, c))];
            const uint8_t code = encode(spec.format, scaled(spec, s, x[i]));
            q.codes[i] = code;
            const float unclamped = spec.rule == ScaleRule::vllm ? x[i] / s.stored : x[i] * s.multiplier;
            q.counts.values += 1;
            q.counts.saturated += saturates(spec.format, unclamped);
            q.counts.flushed += x[i] != 0 && (code & 0x7f) == 0;
        }
    return q;
}

template <class T>
static std::vector<T> transposed(std::span<const T> x, int64_t rows, int64_t k) {
    std::vector<T> t(x.size());
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < k; ++c)
            t[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * k + c)];
    return t;
}

Quantized quantize_transposed_reference(std::span<const float> x, int64_t rows, int64_t k,
                                        const QuantSpec& spec, const float* multiplier) {
    check(static_cast<int64_t>(x.size()) == rows * k, "quantize: ", x.size(), " values for ", rows, "x", k);
    return quantize_reference(transposed(x, rows, k), k, rows, spec, multiplier);
}

std::vector<float> dequantize_reference(const Quantized& q) {
    std::vector<float> x(q.codes.size());
    for (int64_t r = 0; r < q.grid.rows; ++r)
        for (int64_t c = 0; c < q.grid.k; ++c) {
            const size_t i = static_cast<size_t>(r * q.grid.k + c);
            x[i] = decode(q.spec.format, q.codes[i]) * q.scales[static_cast<size_t>(q.grid.index(r, c))];
        }
    return x;
}

Quantized transposed_codes(const Quantized& q) {
    check(q.spec.whole_tensor() || q.spec.block_rows == q.spec.block_k, "transpose: ", describe(q.spec),
          " must be quantized anew along the other axis");
    const BlockGrid& g = q.grid;
    Quantized t;
    t.spec = q.spec;
    t.grid = BlockGrid(g.k, g.rows, g.block_k, g.block_rows);
    t.codes = transposed<uint8_t>(q.codes, g.rows, g.k);
    t.scales = transposed<float>(q.scales, g.scale_rows(), g.scale_k());
    t.e8m0 = q.e8m0.empty() ? q.e8m0 : transposed<uint8_t>(q.e8m0, g.scale_rows(), g.scale_k());
    t.counts = q.counts;
    return t;
}

DelayedScale::DelayedScale(DType format, const PerTensorRules& rules, bool pow2)
    : fmax_(max_of(format)), rule_(rules.amax), pow2_(pow2), history_(static_cast<size_t>(rules.history)) {
    check(rules.history >= 1, "delayed scaling: a history of ", rules.history, " steps");
    for (int64_t i = 0; i < rules.margin; ++i) fmax_ *= 0.5f;
}

void DelayedScale::observe(float amax) { history_[0] = amax_of(history_[0], amax); }

void DelayedScale::begin_step() {
    const float last = history_[0];
    amax_used_ = 0;
    if (last == 0) return;
    history_.erase(history_.begin());
    history_.push_back(last);
    amax_used_ = last;
    if (rule_ == AmaxRule::max)
        for (float h : history_) amax_used_ = amax_of(amax_used_, h);
    history_[0] = 0;  // free for the running step; what it held still counted above
    if (!is_finite(amax_used_)) return;
    multiplier_ = fmax_ / amax_used_;
    if (!is_finite(multiplier_)) multiplier_ = f32_max;
    if (pow2_) multiplier_ = pow2_floor(multiplier_);
}

void DelayedScale::restore(std::vector<float> history, float multiplier) {
    if (history.size() != history_.size())
        refuse("delayed scaling: the checkpoint holds a history of ", history.size(), " steps, the recipe ",
               history_.size());
    history_ = std::move(history);
    multiplier_ = multiplier;
}

static int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

std::vector<float> gemm_ready_scales(const Quantized& q) {
    const int64_t rows = q.grid.scale_rows(), k = q.grid.scale_k();
    if (q.spec.block_rows != 1) {
        const int64_t stride = round_up(k, 4);
        std::vector<float> out(static_cast<size_t>(rows * stride), 0.0f);
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < k; ++c)
                out[static_cast<size_t>(r * stride + c)] = q.scales[static_cast<size_t>(r * k + c)];
        return out;
    }
    const int64_t stride = round_up(rows, 4);
    std::vector<float> out(static_cast<size_t>(k * stride), 0.0f);
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < k; ++c)
            out[static_cast<size_t>(c * stride + r)] = q.scales[static_cast<size_t>(r * k + c)];
    return out;
}

int64_t swizzle_offset(int64_t outer, int64_t inner, int64_t inner_padded) {
    return ((outer / 128) * (inner_padded / 4) + inner / 4) * 512 + (outer % 32) * 16 +
           (outer % 128) / 32 * 4 + inner % 4;
}

std::vector<uint8_t> swizzle_e8m0(std::span<const uint8_t> codes, int64_t outer, int64_t inner) {
    check(static_cast<int64_t>(codes.size()) == outer * inner, "swizzle: ", codes.size(), " codes for ",
          outer, "x", inner);
    const int64_t inner_padded = round_up(inner, 4);
    std::vector<uint8_t> out(static_cast<size_t>(round_up(outer, 128) * inner_padded), 0);
    for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < inner; ++i)
            out[static_cast<size_t>(swizzle_offset(o, i, inner_padded))] =
                codes[static_cast<size_t>(o * inner + i)];
    return out;
}

BlockGrid file_grid(const std::string& tensor, int64_t rows, int64_t k, int64_t scale_rows, int64_t scale_k,
                    int64_t block_rows, int64_t block_k) {
    if (block_rows < 1 || block_k < 1)
        refuse(tensor, ": weight_block_size [", block_rows, ", ", block_k, "] must be positive");
    const BlockGrid grid(rows, k, block_rows, block_k);
    if (grid.scale_rows() != scale_rows || grid.scale_k() != scale_k)
        refuse(tensor, ": scales of shape [", scale_rows, ", ", scale_k, "]; a [", rows, ", ", k,
               "] weight in blocks of [", block_rows, ", ", block_k, "] has [", grid.scale_rows(), ", ",
               grid.scale_k(), "]");
    return grid;
}

bool fused_parts_ok(std::span<const int64_t> rows_of_parts, int64_t block_rows) {
    for (size_t i = 0; i + 1 < rows_of_parts.size(); ++i)
        if (rows_of_parts[i] % block_rows) return false;
    return true;
}

}  // namespace fp8rl
