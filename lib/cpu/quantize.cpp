// cpu/quantize: activations and gradients become operands, in parallel over rows or over squares of the
// result. Counts and amax are exact: they are merged without regard to order.
#include "cpu/quantize.h"

#include <algorithm>
#include <atomic>

#include "core/parallel.h"
#include "cpu/pack.h"

namespace fp8rl::cpu {
namespace {

constexpr int64_t grain = 1 << 14;  // elements a chunk of work is worth

void merge(const Seen& seen, const QuantIo& io) {
    if (io.amax) {
        std::atomic_ref<float> amax(*io.amax);
        const float mine = float_of_bits(seen.amax_bits);
        float old = amax.load(std::memory_order_relaxed);
        while (amax_of(old, mine) != old &&
               !amax.compare_exchange_weak(old, amax_of(old, mine), std::memory_order_relaxed)) {
        }
    }
    if (io.counts) {
        using Counter = std::atomic_ref<uint64_t>;
        Counter(io.counts->values).fetch_add(seen.counts.values, std::memory_order_relaxed);
        Counter(io.counts->saturated).fetch_add(seen.counts.saturated, std::memory_order_relaxed);
        Counter(io.counts->flushed).fetch_add(seen.counts.flushed, std::memory_order_relaxed);
    }
}

template <class T>
float tensor_amax(const T* x, int64_t n) {
    std::atomic<uint32_t> bits{0};
    const auto amax = cast_kernels().of<T>().amax;
    parallel::for_range(n, grain, [&](int64_t begin, int64_t end, int) {
        const uint32_t mine = amax(x + begin, end - begin);
        uint32_t old = bits.load();
        while (mine > old && !bits.compare_exchange_weak(old, mine)) {
        }
    });
    return float_of_bits(bits.load());
}

template <class T>
void run(const Operand& o, const T* x, int64_t ld, bool transpose, const QuantIo& io) {
    Scale whole;
    QuantIo report = io;
    if (o.spec.whole_tensor()) {
        if (o.spec.scaling == Scaling::current) {
            const float amax = tensor_amax(x, o.rows * o.k);
            whole = scale_of(o.spec, amax);
            Seen seen;
            seen.amax_bits = bits_of(amax);
            merge(seen, {nullptr, io.amax, nullptr});
            report.amax = nullptr;
        } else {
            if (!io.multiplier) defect("quantize: ", describe(o.spec), " needs its multiplier");
            whole = scale_of_multiplier(*io.multiplier);
        }
    }
    if (!o.spec.quantized()) report.counts = nullptr;
    const Packer packer(o, transpose, whole, report.counts != nullptr, report.amax != nullptr);
    if (o.side == Side::a && !transpose) {
        parallel::for_range(o.rows, std::max<int64_t>(1, grain / std::max<int64_t>(1, o.k)),
                            [&](int64_t begin, int64_t end, int) {
                                Seen seen;
                                packer.rows(x + begin * ld, ld, begin, end - begin, seen);
                                merge(seen, report);
                            });
        return;
    }
    const int64_t across = (o.rows + unit - 1) / unit, along = (o.k + unit - 1) / unit;
    parallel::for_each(across * along, [&](int64_t i, int) {
        const int64_t row = i % across * unit, k = i / across * unit;
        Seen seen;
        packer.square(x + (transpose ? k * ld + row : row * ld + k), ld, row, k, seen);
        merge(seen, report);
    });
}

// A view of x where the GEMM can read it as it lies.
bool is_view(Tensor x, const QuantSpec& spec, Side side, bool transpose) {
    return side == Side::a && !transpose && spec.format == x.dtype && x.cols() % 2 == 0;
}

}  // namespace

Operand reserve_operand(Tensor x, const QuantSpec& spec, Side side, bool transpose, Arena& arena) {
    if (x.dtype != DType::bf16 && x.dtype != DType::f32) defect("quantize: ", shape_text(x));
    const int64_t rows = transpose ? x.cols() : x.rows(), k = transpose ? x.rows() : x.cols();
    if (!is_view(x, spec, side, transpose)) return allocate_operand(spec, side, rows, k, arena);
    Operand o;
    o.data = x.data, o.rows = rows, o.k = k, o.spec = spec, o.side = side;
    return o;
}

Operand quantize(Tensor x, const QuantSpec& spec, Side side, bool transpose, Arena& arena,
                 const QuantIo& io) {
    if (spec.scaling != Scaling::current && !spec.whole_tensor())
        defect("quantize: ", describe(spec), " cannot have a scale that is not its block's own");
    const Operand o = reserve_operand(x, spec, side, transpose, arena);
    if (is_view(x, spec, side, transpose)) {
        if (io.amax) {
            Seen seen;
            seen.amax_bits = bits_of(x.dtype == DType::f32 ? tensor_amax(x.as<float>(), x.size())
                                                           : tensor_amax(x.as<bf16>(), x.size()));
            merge(seen, {nullptr, io.amax, nullptr});
        }
    } else if (x.dtype == DType::f32) {
        run(o, x.as<float>(), x.cols(), transpose, io);
    } else {
        run(o, x.as<bf16>(), x.cols(), transpose, io);
    }
    return o;
}

void dequantize(float* out, const Operand& q) {
    const Layout l = layout_of(q);
    const char* data = static_cast<const char*>(q.data);
    for (int64_t r = 0; r < q.rows; ++r)
        for (int64_t k = 0; k < q.k; ++k) {
            const char* at = data + l.offset(q.side, r, k);
            float v;
            if (l.element == DType::f32)
                v = *reinterpret_cast<const float*>(at);
            else if (l.element == DType::bf16)
                v = to_float(*reinterpret_cast<const bf16*>(at));
            else
                v = decode(l.element, *reinterpret_cast<const uint8_t*>(at));
            *out++ = q.scales ? v * q.scales[l.scale_index(q.side, r, k)] : v;
        }
}

void read_codes(uint8_t* codes, float* scales, const Operand& q) {
    if (!q.spec.quantized()) defect("read_codes: ", describe(q.spec), " has no codes");
    const Layout l = layout_of(q);
    const char* data = static_cast<const char*>(q.data);
    for (int64_t r = 0; r < q.rows; ++r)
        for (int64_t k = 0; k < q.k; ++k) {
            const char* at = data + l.offset(q.side, r, k);
            *codes++ = l.element == DType::bf16
                           ? encode(q.spec.format, to_float(*reinterpret_cast<const bf16*>(at)))
                           : *reinterpret_cast<const uint8_t*>(at);
        }
    if (l.granularity == Granularity::tensor) {
        *scales = q.scales[0];
        return;
    }
    const int64_t step = l.granularity == Granularity::square ? unit : 1;
    for (int64_t r = 0; r < q.rows; r += step)
        for (int64_t b = 0; b < l.blocks; ++b) *scales++ = q.scales[l.scale_index(q.side, r, b * l.block_k)];
}

}  // namespace fp8rl::cpu
