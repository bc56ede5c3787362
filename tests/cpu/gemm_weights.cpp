// Prepared weights and the three GEMMs of a linear layer: fprop X W^T, dgrad dY W, wgrad dY^T X, against
// explicit transposes and the literal sum.
#include "gemm_support.h"
#include "quant/goldens.h"
#include "test.h"

using namespace fp8rl;
using namespace fp8rl::test;

namespace {

struct Mode {
    const char* name;
    QuantSpec weight, activation, gradient;
    DType act = DType::bf16;
    bool backward_plain = false;  // recipe `backward: bf16`
};

const Mode modes[] = {
    {"bf16", QuantSpec::bf16(), QuantSpec::bf16(), QuantSpec::bf16()},
    {"blockwise", QuantSpec::block_128x128(), QuantSpec::block_1x128(), QuantSpec::block_1x128()},
    {"blockwise pow2, e5m2 gradients", QuantSpec::block_128x128(ScaleKind::pow2),
     QuantSpec::block_1x128(ScaleKind::pow2), QuantSpec::block_1x128(ScaleKind::pow2, DType::e5m2)},
    {"blockwise, bf16 backward", QuantSpec::block_128x128(), QuantSpec::block_1x128(), QuantSpec::bf16(),
     DType::bf16, true},
    {"per tensor", QuantSpec::tensor(DType::e4m3), QuantSpec::tensor(DType::e4m3),
     QuantSpec::tensor(DType::e5m2)},
    {"mxfp8", QuantSpec::mx(), QuantSpec::mx(), QuantSpec::mx()},
    {"fp32", QuantSpec::f32(), QuantSpec::f32(), QuantSpec::f32(), DType::f32}};

std::vector<float> transposed(const std::vector<float>& x, int64_t rows, int64_t cols) {
    std::vector<float> t(x.size());
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < cols; ++c)
            t[static_cast<size_t>(c * rows + r)] = x[static_cast<size_t>(r * cols + c)];
    return t;
}

std::vector<float> master_values(int64_t n) {
    Random r(11, Stream::test);
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) x = r.normal() * 0.05f;  // not BF16 numbers
    return v;
}
std::vector<float> rounded(std::vector<float> v) {
    for (float& x : v) x = round_bf16(x);
    return v;
}

}  // namespace

TEST_CASE("forward, input gradient and weight gradient equal the literal sums over explicit transposes",
          "[gemm]") {
    struct Shape {
        int64_t tokens, out, in;
    };
    for (const Mode& mode : modes)
        for (const Shape& s : {Shape{37, 200, 136}, {150, 130, 259}, {1, 33, 65}}) {
            const auto master = master_values(s.out * s.in);
            const auto w = mode.act == DType::f32 ? master : rounded(master);
            const auto x = random_values(s.tokens * s.in, 21), dy = random_values(s.tokens * s.out, 22);
            const auto old = random_values(s.out * s.in, 23);
            const QuantSpec backward = mode.backward_plain ? QuantSpec::bf16() : mode.weight;
            const QuantSpec wgrad_x = mode.backward_plain ? QuantSpec::bf16() : mode.activation;

            const auto y = literal_gemm(side_of(x, s.tokens, s.in, mode.activation),
                                        side_of(w, s.out, s.in, mode.weight));
            const auto dx = literal_gemm(side_of(dy, s.tokens, s.out, mode.gradient),
                                         side_of(transposed(w, s.out, s.in), s.in, s.out, backward));
            const auto dw =
                literal_gemm(side_of(transposed(dy, s.tokens, s.out), s.out, s.tokens, mode.gradient),
                             side_of(transposed(x, s.tokens, s.in), s.in, s.tokens, wgrad_x), &old);

            for (cpu::Simd path : cpu::available_simd())
                for (int threads : {1, 3}) {
                    Setting setting(path, threads);
                    Memory memory(16 << 20);
                    Arena& arena = memory.arena();
                    Weight weight =
                        cpu::reserve_weight(s.out, s.in, {mode.weight, true, backward, true}, arena);
                    cpu::prepare(weight, memory.copy(master, s.out, s.in, DType::f32));
                    const Tensor tx = memory.copy(x, s.tokens, s.in, mode.act);
                    const Tensor tdy = memory.copy(dy, s.tokens, s.out, mode.act);
                    Tensor ty = arena.tensor(DType::f32, {s.tokens, s.out});
                    Tensor tdx = arena.tensor(DType::f32, {s.tokens, s.in}),
                           tdw = memory.copy(old, s.out, s.in, DType::f32);
                    cpu::gemm(ty, cpu::quantize(tx, mode.activation, Side::a, false, arena, {}),
                              weight.forward, false);
                    cpu::gemm(tdx, cpu::quantize(tdy, mode.gradient, Side::a, false, arena, {}),
                              weight.backward, false);
                    cpu::gemm(tdw, cpu::quantize(tdy, mode.gradient, Side::a, true, arena, {}),
                              cpu::quantize(tx, wgrad_x, Side::b, true, arena, {}), true);
                    INFO(mode.name << " " << s.tokens << " tokens " << s.out << "x" << s.in << " "
                                   << cpu::name_of(path) << " threads " << threads);
                    REQUIRE(same_bits(y, ty.as<float>()));
                    REQUIRE(same_bits(dx, tdx.as<float>()));
                    REQUIRE(same_bits(dw, tdw.as<float>()));
                }
        }
}

TEST_CASE("prepared weights hold the codes of the BF16 master; the transposed layout has the same codes",
          "[gemm]") {
    const int64_t out = 200, in = 333;
    const auto master = master_values(out * in);
    const auto w = rounded(master);
    for (const Mode& mode : modes) {
        if (!mode.weight.quantized()) continue;
        const Quantized want = quantize_reference(w, out, in, mode.weight);
        const bool again = mode.weight.block_rows == 1;
        const Quantized turned =
            again ? quantize_transposed_reference(w, out, in, mode.weight) : transposed_codes(want);
        for (cpu::Simd path : cpu::available_simd()) {
            Setting setting(path, 2);
            Memory memory(4 << 20);
            Weight weight =
                cpu::reserve_weight(out, in, {mode.weight, true, mode.weight, true}, memory.arena());
            for (int round = 0; round < 2; ++round) {  // preparing again replaces, it does not add
                cpu::prepare(weight, memory.copy(master, out, in, DType::f32));
                std::vector<uint8_t> codes(w.size());
                std::vector<float> scales(want.scales.size());
                INFO(mode.name << " " << cpu::name_of(path));
                cpu::read_codes(codes.data(), scales.data(), weight.forward);
                REQUIRE(codes == want.codes);
                REQUIRE(bits(scales) == bits(want.scales));
                scales.resize(turned.scales.size());
                cpu::read_codes(codes.data(), scales.data(), weight.backward);
                REQUIRE(codes == turned.codes);
                REQUIRE(bits(scales) == bits(turned.scales));
                REQUIRE(weight.counts.values == want.counts.values);
                REQUIRE(weight.counts.saturated == want.counts.saturated);
                REQUIRE(weight.counts.flushed == want.counts.flushed);
                size_t wrong = 0;
                for (size_t i = 0; i < w.size(); ++i) wrong += to_float(weight.rows.as<bf16>()[i]) != w[i];
                REQUIRE(wrong == 0);
            }
        }
    }
}

TEST_CASE("a weight's memory is the same on a counting arena, and delayed scaling of weights is a defect",
          "[gemm]") {
    for (const Mode& mode : modes) {
        Memory memory(4 << 20);
        Arena counting = Arena::counting("plan");
        const WeightSpec spec{mode.weight, true, mode.weight, true};
        cpu::reserve_weight(200, 333, spec, memory.arena());
        cpu::reserve_weight(200, 333, spec, counting);
        CHECK(counting.used() == memory.arena().used());
    }
    QuantSpec delayed = QuantSpec::tensor(DType::e4m3);
    delayed.scaling = Scaling::delayed;
    Arena counting = Arena::counting("plan");
    CHECK_THROWS_AS(cpu::reserve_weight(8, 8, {delayed, false, {}, false}, counting), Error);
}
