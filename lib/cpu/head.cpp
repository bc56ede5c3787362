// cpu/head: rows are taken in chunks and the vocabulary in slices, so that logits live in a few MiB; a slice
// is a whole number of vocabulary blocks, so cutting it changes no sum. The head is never FP8: other specs
// are defects.
#include "cpu/head.h"

#include <algorithm>
#include <limits>

#include "core/arena.h"
#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/buffer.h"
#include "cpu/gemm.h"
#include "cpu/pack.h"
#include "cpu/quantize.h"
#include "cpu/vocabulary.h"

namespace fp8rl::cpu {
namespace {

constexpr int64_t slice = 4096;               // of the vocabulary: 4 blocks
constexpr int64_t chunk_rows = 512;           // forward: 8 MiB of logits
constexpr size_t backward_bytes = 64u << 20;  // what a chunk's gradients may take
constexpr float none = -std::numeric_limits<float>::infinity();

QuantSpec plain(DType type) { return type == DType::f32 ? QuantSpec::f32() : QuantSpec::bf16(); }

// Columns [first, first + n) of C: side b lies in panels, one after another.
Operand columns_of(const Operand& b, int64_t first, int64_t n) {
    Operand part = b;
    part.data =
        static_cast<char*>(b.data) + static_cast<size_t>(first / panel_columns) * layout_of(b).panel_bytes();
    part.rows = n;
    return part;
}

struct Head {
    Tensor h;
    const Weight& weight;
    std::span<const int32_t> targets;
    std::span<const float> cutoffs;
    float inverse_temperature;
    int64_t rows, v;

    Head(const char* op, Tensor hidden, const Weight& w, std::span<const int32_t> t, std::span<const float> c,
         float temperature)
        : h(hidden),
          weight(w),
          targets(t),
          cutoffs(c),
          inverse_temperature(1.0f / temperature),
          rows(h.rows()),
          v(w.out) {
        check(h.cols() == w.in && w.spec.forward == plain(h.dtype), op, ": h ", shape_text(h),
              " for a head [", w.out, ", ", w.in, "] of ", describe(w.spec.forward));
        check(temperature > 0, op, ": temperature ", temperature, " is not positive");
        check(static_cast<int64_t>(targets.size()) == rows &&
                  (cutoffs.empty() || cutoffs.size() == targets.size()),
              op, ": ", rows, " rows, ", targets.size(), " targets, ", cutoffs.size(), " cutoffs");
        for (int32_t id : targets) check(id >= 0 && id < v, op, ": target ", id, " of ", v);
    }
    float cutoff(int64_t row) const { return cutoffs.empty() ? none : cutoffs[static_cast<size_t>(row)]; }
    int64_t target(int64_t row) const { return targets[static_cast<size_t>(row)]; }

    // Logits [n, width] of rows [first, first + n) and ids [begin, begin + width).
    void logits(float* out, const Operand& a, int64_t n, int64_t begin, int64_t width) const {
        gemm(Tensor(out, DType::f32, {n, width}), a, columns_of(weight.forward, begin, width), false);
    }
};

// One growing block for all of the head's scratch; a call carves it through an arena.
Arena scratch(size_t bytes) {
    static Buffer buffer;
    return Arena("head", buffer.reserve(bytes), bytes);
}

}  // namespace

void logits(Tensor out, Tensor h, const Weight& head) {
    check(out.rows() == h.rows() && out.cols() == head.out && h.cols() == head.in && out.dtype == DType::f32,
          "logits: out ", shape_text(out), ", h ", shape_text(h), ", head [", head.out, ", ", head.in, "]");
    Arena arena = scratch(h.bytes() * 2 + Arena::alignment * 2);
    gemm(out, quantize(h, plain(h.dtype), Side::a, false, arena, {}), head.forward, false);
}

void token_logprob(Tensor logp, Tensor entropy, Tensor lse, Tensor h, const Weight& head,
                   std::span<const int32_t> targets, std::span<const float> cutoffs, float temperature) {
    const Head call("token_logprob", h, head, targets, cutoffs, temperature);
    check(logp.size() == call.rows && lse.size() == call.rows && (!entropy || entropy.size() == call.rows),
          "token_logprob: logp ", shape_text(logp), ", lse ", shape_text(lse), ", h ", shape_text(h));
    const int64_t width = std::min(slice, call.v), most = std::min(chunk_rows, call.rows);
    const size_t row_bytes = (static_cast<size_t>(h.cols()) + 1) * size_of(h.dtype);
    Arena arena = scratch(static_cast<size_t>(most) * (static_cast<size_t>(width + 1) * sizeof(float) +
                                                       sizeof(SoftmaxState) + row_bytes) +
                          5 * Arena::alignment);
    float* out = arena.array<float>(static_cast<size_t>(most * width));
    float* chosen = arena.array<float>(static_cast<size_t>(most));
    SoftmaxState* states = arena.array<SoftmaxState>(static_cast<size_t>(most));
    for (int64_t first = 0; first < call.rows; first += chunk_rows) {
        const int64_t n = std::min(chunk_rows, call.rows - first);
        const auto scope = arena.scope();
        const Operand a = quantize(h.row_range(first, n), plain(h.dtype), Side::a, false, arena, {});
        std::fill(states, states + n, SoftmaxState{});
        for (int64_t begin = 0; begin < call.v; begin += slice) {
            const int64_t wide = std::min(slice, call.v - begin);
            call.logits(out, a, n, begin, wide);
            parallel::for_range(n, 1, [&](int64_t r0, int64_t r1, int) {
                for (int64_t r = r0; r < r1; ++r) {
                    const float* x = out + r * wide;
                    const int64_t target = call.target(first + r) - begin;
                    if (target >= 0 && target < wide) chosen[r] = x[target];
                    add_logits(states[r], x, wide, call.inverse_temperature, call.cutoff(first + r));
                }
            });
        }
        for (int64_t r = 0; r < n; ++r) {
            const SoftmaxState& s = states[r];
            logp.as<float>()[first + r] = chosen[r] < call.cutoff(first + r)
                                              ? none
                                              : s.log_probability(chosen[r] * call.inverse_temperature);
            lse.as<float>()[first + r] = s.lse();
            if (entropy) entropy.as<float>()[first + r] = s.entropy();
        }
    }
}

namespace {

// A chunk's rows: dlogits over the whole vocabulary for dh, and slice by slice, transposed, for dhead.
template <class T>
void backward(Tensor dh, Tensor dhead, Tensor dlogp, Tensor dentropy, Tensor lse, Tensor entropy,
              const Head& call) {
    const DType type = dtype_of<T>::value;
    const QuantSpec spec = plain(type);
    const int64_t c = call.h.cols(), v = call.v, width = std::min(slice, v);
    const size_t row_bytes =
        static_cast<size_t>(v + 2 * width) * sizeof(T) + static_cast<size_t>(width) * sizeof(float);
    // Whole 128s, so that only the last K block is cut short; at least one, whatever the vocabulary takes.
    const int64_t chunk =
        std::clamp<int64_t>(static_cast<int64_t>(backward_bytes / row_bytes) / 128 * 128, 128, 1024);
    const int64_t most = std::min(chunk, call.rows);
    // The same steps on an arena without memory say how much the real one needs.
    const Tensor h_rows(nullptr, type, {most, c}), slices(nullptr, type, {most, width}),
        all(nullptr, type, {most, v});
    Arena dry = Arena::counting("head");
    dry.array<T>(static_cast<size_t>(most * width));
    dry.array<float>(static_cast<size_t>(most * width));
    dry.array<T>(static_cast<size_t>(most * v));
    reserve_operand(h_rows, spec, Side::a, false, dry);
    reserve_operand(h_rows, spec, Side::b, true, dry);
    reserve_operand(slices, spec, Side::a, true, dry);
    reserve_operand(all, spec, Side::a, false, dry);
    Arena arena = scratch(dry.used());
    T* part = arena.array<T>(static_cast<size_t>(most * width));
    float* x = arena.array<float>(static_cast<size_t>(most * width));
    T* whole = arena.array<T>(static_cast<size_t>(most * v));
    for (int64_t first = 0; first < call.rows; first += chunk) {
        const int64_t n = std::min(chunk, call.rows - first);
        const Tensor rows = call.h.row_range(first, n);
        const auto chunk_scope = arena.scope();
        const Operand a = quantize(rows, spec, Side::a, false, arena, {});
        const Operand columns = quantize(rows, spec, Side::b, true, arena, {});
        for (int64_t begin = 0; begin < v; begin += slice) {
            const int64_t wide = std::min(slice, v - begin);
            call.logits(x, a, n, begin, wide);
            parallel::for_range(n, 1, [&](int64_t r0, int64_t r1, int) {
                for (int64_t r = r0; r < r1; ++r) {
                    const int64_t row = first + r;
                    const float dp = dlogp.as<float>()[row], de = dentropy ? dentropy.as<float>()[row] : 0.0f;
                    T* to = part + r * wide;
                    if (dp == 0 && de == 0)
                        std::fill(to, to + wide, T{});
                    else
                        softmax_gradient(to, x + r * wide, wide, call.inverse_temperature, call.cutoff(row),
                                         lse.as<float>()[row], dentropy ? entropy.as<float>()[row] : 0.0f, dp,
                                         de, call.target(row) - begin);
                    std::copy(to, to + wide, whole + r * v + begin);
                }
            });
            const auto slice_scope = arena.scope();
            const Operand turned = quantize(Tensor(part, type, {n, wide}), spec, Side::a, true, arena, {});
            gemm(dhead.row_range(begin, wide), turned, columns, true);
        }
        gemm(dh.row_range(first, n), quantize(Tensor(whole, type, {n, v}), spec, Side::a, false, arena, {}),
             call.weight.backward, false);
    }
}

}  // namespace

void token_logprob_backward(Tensor dh, Tensor dhead, Tensor dlogp, Tensor dentropy, Tensor lse,
                            Tensor entropy, Tensor h, const Weight& head, std::span<const int32_t> targets,
                            std::span<const float> cutoffs, float temperature) {
    const Head call("token_logprob_backward", h, head, targets, cutoffs, temperature);
    check(same_shape(dh, h) && dh.dtype == h.dtype && dhead.rows() == head.out && dhead.cols() == head.in &&
              dhead.dtype == DType::f32 && dlogp.size() == call.rows && lse.size() == call.rows &&
              (!dentropy || (dentropy.size() == call.rows && entropy.size() == call.rows)),
          "token_logprob_backward: dh ", shape_text(dh), ", dhead ", shape_text(dhead), ", dlogp ",
          shape_text(dlogp), ", dentropy ", shape_text(dentropy), ", h ", shape_text(h));
    check(head.spec.backward && head.spec.backward_spec == plain(h.dtype),
          "token_logprob_backward: the head has no ", name_of(h.dtype), " backward layout");
    with_act("token_logprob_backward", h.dtype,
             [&](auto zero) { backward<decltype(zero)>(dh, dhead, dlogp, dentropy, lse, entropy, call); });
}

}  // namespace fp8rl::cpu
