// Operands hold the codes and scales of lib/quant's reference, whatever the side, orientation, path and
// threads.
#include "gemm_support.h"
#include "quant/goldens.h"
#include "test.h"

using namespace fp8rl;
using namespace fp8rl::test;

namespace {

QuantSpec with_vllm(QuantSpec s) {
    s.rule = ScaleRule::vllm;
    return s;
}
QuantSpec with(QuantSpec s, Scaling scaling) {
    s.scaling = scaling;
    return s;
}

const QuantSpec specs[] = {QuantSpec::block_1x128(),
                           QuantSpec::block_1x128(ScaleKind::pow2),
                           QuantSpec::block_1x128(ScaleKind::f32, DType::e5m2),
                           with_vllm(QuantSpec::block_1x128()),
                           QuantSpec::block_128x128(),
                           QuantSpec::block_128x128(ScaleKind::pow2),
                           with_vllm(QuantSpec::block_128x128()),
                           QuantSpec::mx(),
                           QuantSpec::mx(DType::e5m2),
                           QuantSpec::tensor(DType::e4m3),
                           QuantSpec::tensor(DType::e5m2, ScaleKind::pow2),
                           with(QuantSpec::tensor(DType::e4m3), Scaling::delayed),
                           with(QuantSpec::tensor(DType::e5m2), Scaling::fixed)};

struct Shape {
    int64_t rows, cols;
};
const Shape shapes[] = {{1, 1}, {3, 33}, {33, 130}, {40, 256}, {129, 65}, {130, 300}};

// Magnitudes from denormal to infinite, zeros of both signs, NaN.
std::vector<float> hostile(int64_t n, uint32_t key, DType type) {
    Random r(3, Stream::test, key);
    std::vector<float> v(static_cast<size_t>(n));
    for (float& x : v) {
        const int64_t kind = r.integer(0, 199);
        const float base = r.normal();
        x = kind == 0    ? 0.0f
            : kind == 1  ? -0.0f
            : kind == 2  ? float_of_bits(0x7fc12345u)
            : kind == 3  ? base * 1e38f
            : kind == 4  ? base * 1e-39f
            : kind < 20  ? base * std::ldexp(1.0f, static_cast<int>(r.integer(-30, 30)))
            : kind == 21 ? (base > 2 ? float_of_bits(f32_infinity_bits) : base)
                         : base;
        if (type == DType::bf16) x = round_bf16(x);
    }
    return v;
}

void compare(const Operand& o, const Quantized& want) {
    std::vector<uint8_t> codes(want.codes.size());
    std::vector<float> scales(want.scales.size());
    cpu::read_codes(codes.data(), scales.data(), o);
    REQUIRE(codes == want.codes);
    REQUIRE(bits(scales) == bits(want.scales));
    std::vector<float> values(want.codes.size());
    cpu::dequantize(values.data(), o);
    REQUIRE(bits(values) == bits(dequantize_reference(want)));
}

}  // namespace

TEST_CASE("operands hold the reference's codes, scales, counts and amax on every path", "[quantize]") {
    uint32_t key = 0;
    for (const QuantSpec& spec : specs)
        for (const Shape& s : shapes)
            for (DType type : {DType::bf16, DType::f32}) {
                auto x = hostile(s.rows * s.cols, ++key, type);
                if (spec.whole_tensor())  // one Inf would make every scale 1
                    for (float& v : x)
                        if (!is_finite(v)) v = 1;
                const float multiplier = 3.7f;
                const float* m = spec.scaling == Scaling::current ? nullptr : &multiplier;
                float amax = 0;
                for (float v : x) amax = amax_of(amax, v);
                const Quantized along = quantize_reference(x, s.rows, s.cols, spec, m);
                const Quantized across = quantize_transposed_reference(x, s.rows, s.cols, spec, m);
                for (cpu::Simd path : cpu::available_simd())
                    for (int threads : {1, 3}) {
                        Setting setting(path, threads);
                        Memory memory(2 << 20);
                        const Tensor t = memory.copy(x, s.rows, s.cols, type);
                        for (Side side : {Side::a, Side::b})
                            for (bool transpose : {false, true}) {
                                if (side == Side::a && spec.block_rows == 128) continue;
                                INFO(describe(spec)
                                     << " " << s.rows << "x" << s.cols << " side "
                                     << (side == Side::a ? "a" : "b") << " transpose " << transpose << " "
                                     << cpu::name_of(path) << " threads " << threads);
                                const Quantized& want = transpose ? across : along;
                                float seen = 0.25f;
                                QuantCounts counts{5, 5, 5};
                                compare(cpu::quantize(t, spec, side, transpose, memory.arena(),
                                                      {m, &seen, &counts}),
                                        want);
                                REQUIRE(bits_of(seen) == bits_of(amax_of(0.25f, amax)));
                                REQUIRE(counts.values == 5 + want.counts.values);
                                REQUIRE(counts.saturated == 5 + want.counts.saturated);
                                REQUIRE(counts.flushed == 5 + want.counts.flushed);
                                compare(cpu::quantize(t, spec, side, transpose, memory.arena(),
                                                      {m, nullptr, nullptr}),
                                        want);
                            }
                    }
            }
}

TEST_CASE("plain operands keep the numbers, rounded to BF16 where they were not", "[quantize]") {
    const int64_t rows = 70, cols = 131;
    const auto x = hostile(rows * cols, 99, DType::f32);
    for (cpu::Simd path : cpu::available_simd()) {
        Setting setting(path, 2);
        for (DType from : {DType::f32, DType::bf16})
            for (const QuantSpec& spec : {QuantSpec::bf16(), QuantSpec::f32()})
                for (Side side : {Side::a, Side::b})
                    for (bool transpose : {false, true}) {
                        Memory memory(1 << 20);
                        float seen = 0, amax = 0;
                        const Operand o = cpu::quantize(memory.copy(x, rows, cols, from), spec, side,
                                                        transpose, memory.arena(), {nullptr, &seen, nullptr});
                        std::vector<float> got(x.size()), want(x.size());
                        cpu::dequantize(got.data(), o);
                        for (int64_t r = 0; r < rows; ++r)
                            for (int64_t c = 0; c < cols; ++c) {
                                const float source = x[static_cast<size_t>(r * cols + c)];
                                const float v = from == DType::bf16 ? round_bf16(source) : source;
                                amax = amax_of(amax, v);
                                want[static_cast<size_t>(transpose ? c * rows + r : r * cols + c)] =
                                    spec.format == DType::bf16 ? round_bf16(v) : v;
                            }
                        INFO(cpu::name_of(path) << " from " << name_of(from) << " to " << describe(spec));
                        REQUIRE(bits(got) == bits(want));
                        REQUIRE(bits_of(seen) == bits_of(amax));
                    }
    }
}

TEST_CASE("BF16 rows of even length are a view, and reserving takes the arena bytes that quantizing takes",
          "[quantize]") {
    Memory memory(1 << 20);
    Arena& arena = memory.arena();
    const Tensor x = arena.tensor(DType::bf16, {6, 64});
    CHECK(cpu::quantize(x, QuantSpec::bf16(), Side::a, false, arena, {}).data == x.data);
    for (const QuantSpec& spec : {QuantSpec::bf16(), QuantSpec::block_1x128(), QuantSpec::mx()})
        for (Side side : {Side::a, Side::b})
            for (bool transpose : {false, true}) {
                Arena counting = Arena::counting("plan");
                Memory fresh(1 << 20);
                cpu::quantize(x, spec, side, transpose, fresh.arena(), {});
                cpu::reserve_operand(x, spec, side, transpose, counting);
                CHECK(counting.used() == fresh.arena().used());
            }
}

TEST_CASE("a scaling without its multiplier, a block scale from elsewhere and an unknown block are defects",
          "[quantize]") {
    Memory memory(1 << 20);
    const Tensor x = memory.arena().tensor(DType::bf16, {4, 64});
    const auto quantize = [&](const QuantSpec& s, Side side) {
        cpu::quantize(x, s, side, false, memory.arena(), {});
    };
    CHECK_THROWS_AS(quantize(with(QuantSpec::tensor(DType::e4m3), Scaling::delayed), Side::a), Error);
    CHECK_THROWS_AS(quantize(with(QuantSpec::block_1x128(), Scaling::fixed), Side::a), Error);
    CHECK_THROWS_AS(quantize({DType::e4m3, ScaleKind::f32, ScaleRule::te, Scaling::current, 1, 64}, Side::a),
                    Error);
    CHECK_THROWS_AS(quantize(QuantSpec::block_128x128(), Side::a), Error);
}

TEST_CASE("golden operands multiply to the golden products", "[quantize][gemm]") {
    const std::map<std::string, QuantSpec> named = {
        {"X.tensor.e4m3", QuantSpec::tensor(DType::e4m3)},
        {"X.tensor.e5m2", QuantSpec::tensor(DType::e5m2)},
        {"W.tensor.e4m3", QuantSpec::tensor(DType::e4m3)},
        {"X.1x128.te_fp32", QuantSpec::block_1x128()},
        {"X.1x128.te_pow2", QuantSpec::block_1x128(ScaleKind::pow2)},
        {"W.128x128.te_fp32", QuantSpec::block_128x128()},
        {"W.128x128.te_pow2", QuantSpec::block_128x128(ScaleKind::pow2)},
        {"X.mx.te_rceil", QuantSpec::mx()},
        {"W.mx.te_rceil", QuantSpec::mx()}};
    for (cpu::Simd path : cpu::available_simd()) {
        Setting setting(path, 2);
        for (const auto& g : goldens().at("gemm")) {
            Memory memory(1 << 20);
            const auto operand = [&](const char* which, Side side) {
                const std::string name = g.at(which);
                const Matrix m = input(name.substr(0, 1).c_str());
                const Operand o = cpu::quantize(memory.copy(m.x, m.rows, m.k, DType::bf16), named.at(name),
                                                side, false, memory.arena(), {});
                for (const auto& e : goldens().at("quant")) {
                    if (e.at("name") != name) continue;
                    std::vector<uint8_t> codes(m.x.size());
                    std::vector<float> scales(m.x.size());
                    cpu::read_codes(codes.data(), scales.data(), o);
                    INFO(name);
                    REQUIRE(codes == bytes(e.at("codes")));
                }
                return o;
            };
            const Operand a = operand("a", Side::a), b = operand("b", Side::b);
            Tensor c = memory.arena().tensor(DType::f32, {a.rows, b.rows});
            cpu::gemm(c, a, b, false);
            for (size_t i = 0; i < static_cast<size_t>(c.size()); ++i) {
                INFO(g.at("name") << " " << cpu::name_of(path) << " element " << i);
                REQUIRE(std::abs(c.as<float>()[i] - g.at("d")[i].get<double>()) <=
                        2e-5 * g.at("abs_sum")[i].get<double>());
            }
        }
    }
}
