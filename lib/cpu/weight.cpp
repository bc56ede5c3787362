// cpu/weight: one pass over the FP32 master, square by square: each is rounded to BF16 once, and every layout
// of it is written while it lies in cache. Weights scale by their own values, at each preparation.
#include "cpu/weight.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/parallel.h"
#include "cpu/pack.h"

namespace fp8rl::cpu {
namespace {

// The scale of a weight that has one for the whole tensor.
Scale whole_scale(const QuantSpec& spec, float amax) {
    return spec.whole_tensor() ? scale_of(spec, round_bf16(amax)) : Scale{};
}

float master_amax(const float* x, int64_t n) {
    std::atomic<uint32_t> bits{0};
    const auto amax = cast_kernels().f32.amax;
    parallel::for_range(n, 1 << 16, [&](int64_t begin, int64_t end, int) {
        const uint32_t mine = amax(x + begin, end - begin);
        uint32_t old = bits.load();
        while (mine > old && !bits.compare_exchange_weak(old, mine)) {
        }
    });
    return float_of_bits(bits.load());
}

void check_spec(const QuantSpec& s) {
    if (s.scaling != Scaling::current) defect("weight: ", describe(s), " must scale by its own values");
}

}  // namespace

Weight reserve_weight(int64_t out, int64_t in, const WeightSpec& spec, Arena& arena) {
    check_spec(spec.forward);
    Weight w;
    w.out = out, w.in = in, w.spec = spec;
    w.forward = allocate_operand(spec.forward, Side::b, out, in, arena);
    if (spec.backward) {
        check_spec(spec.backward_spec);
        check((spec.backward_spec.format == DType::f32) == (spec.forward.format == DType::f32),
              "weight: f32 forward and backward go together");
        w.backward = allocate_operand(spec.backward_spec, Side::b, in, out, arena);
    }
    if (spec.rows)
        w.rows = arena.tensor(spec.forward.format == DType::f32 ? DType::f32 : DType::bf16, {out, in});
    return w;
}

void prepare(Weight& w, Tensor master) {
    if (master.dtype != DType::f32 || master.rows() != w.out || master.cols() != w.in)
        defect("prepare: master ", shape_text(master), " for a weight of ", w.out, "x", w.in);
    const bool f32 = w.spec.forward.format == DType::f32, backward = w.spec.backward;
    const float* x = master.as<float>();
    float amax = 0;
    if (w.spec.forward.whole_tensor() || (backward && w.spec.backward_spec.whole_tensor()))
        amax = master_amax(x, master.size());
    const Packer forward(w.forward, false, whole_scale(w.spec.forward, amax), w.spec.forward.quantized(),
                         false);
    // Without a backward layout this packs nothing, but its constructor stores the tensor's scale.
    const Packer transposed(backward ? w.backward : w.forward, backward,
                            whole_scale(backward ? w.spec.backward_spec : w.spec.forward, amax), false,
                            false);
    const auto round = cast_kernels().f32.round;
    const int64_t across = (w.in + unit - 1) / unit, down = (w.out + unit - 1) / unit;
    std::atomic<uint64_t> values{0}, saturated{0}, flushed{0};
    parallel::for_each(across * down, [&](int64_t i, int) {
        const int64_t o = i / across * unit, c = i % across * unit;
        const int64_t rows = std::min(unit, w.out - o), cols = std::min(unit, w.in - c);
        const float* source = x + o * w.in + c;
        Seen seen, ignored;
        if (f32) {
            forward.square(source, w.in, o, c, seen);
            if (backward) transposed.square(source, w.in, c, o, ignored);
            if (w.rows)
                for (int64_t r = 0; r < rows; ++r)
                    std::memcpy(w.rows.as<float>() + (o + r) * w.in + c, source + r * w.in,
                                static_cast<size_t>(cols) * 4);
            return;
        }
        alignas(64) bf16 rounded[unit * unit];
        for (int64_t r = 0; r < rows; ++r) {
            bf16* line = rounded + r * unit;
            round(source + r * w.in, cols, reinterpret_cast<uint16_t*>(line));
            if (w.rows)
                std::memcpy(w.rows.as<bf16>() + (o + r) * w.in + c, line, static_cast<size_t>(cols) * 2);
        }
        forward.square(rounded, unit, o, c, seen);
        if (backward) transposed.square(rounded, unit, c, o, ignored);
        values.fetch_add(seen.counts.values, std::memory_order_relaxed);
        saturated.fetch_add(seen.counts.saturated, std::memory_order_relaxed);
        flushed.fetch_add(seen.counts.flushed, std::memory_order_relaxed);
    });
    w.counts = {};
    if (w.spec.forward.quantized()) w.counts = {values, saturated, flushed};
}

}  // namespace fp8rl::cpu
