// Every SIMD path, on any number of threads, gives the bits of the literal definition, for every kind of
// operand and shapes that divide by nothing.
#include "gemm_support.h"
#include "test.h"

using namespace fp8rl;
using namespace fp8rl::test;

namespace {

struct Pairing {
    const char* name;
    QuantSpec a, b;
    DType act = DType::bf16;
};

const Pairing pairings[] = {
    {"bf16", QuantSpec::bf16(), QuantSpec::bf16()},
    {"blockwise", QuantSpec::block_1x128(), QuantSpec::block_128x128()},
    {"blockwise, powers of two", QuantSpec::block_1x128(ScaleKind::pow2),
     QuantSpec::block_128x128(ScaleKind::pow2)},
    {"blockwise, weight gradient", QuantSpec::block_1x128(ScaleKind::f32, DType::e5m2),
     QuantSpec::block_1x128()},
    {"blockwise, vllm rule",
     {DType::e4m3, ScaleKind::f32, ScaleRule::vllm, Scaling::current, 1, 128},
     {DType::e4m3, ScaleKind::f32, ScaleRule::vllm, Scaling::current, 128, 128}},
    {"per tensor", QuantSpec::tensor(DType::e4m3), QuantSpec::tensor(DType::e4m3)},
    {"per tensor, gradient", QuantSpec::tensor(DType::e5m2), QuantSpec::tensor(DType::e4m3)},
    {"mxfp8", QuantSpec::mx(), QuantSpec::mx()},
    {"bf16 x fp8", QuantSpec::bf16(), QuantSpec::block_128x128()},
    {"fp8 x bf16", QuantSpec::mx(DType::e5m2), QuantSpec::bf16()},
    {"fp8 x e5m2 panels", QuantSpec::block_1x128(), QuantSpec::block_1x128(ScaleKind::f32, DType::e5m2)},
    {"f32", QuantSpec::f32(), QuantSpec::f32(), DType::f32},
};

struct Shape {
    int64_t m, n, k;
};

}  // namespace

TEST_CASE("every path and thread count gives the literal sum, bit for bit", "[gemm]") {
    const Shape shapes[] = {{1, 40, 576},  {2, 64, 130},   {3, 161, 1},   {5, 33, 33},
                            {7, 96, 256},  {12, 130, 576}, {13, 70, 66},  {25, 31, 3},
                            {37, 97, 258}, {64, 260, 64},  {130, 65, 160}};
    for (const Pairing& pairing : pairings)
        for (const Shape& s : shapes) {
            const auto x = random_values(s.m * s.k, 1), w = random_values(s.n * s.k, 2);
            const auto expected =
                literal_gemm(side_of(x, s.m, s.k, pairing.a), side_of(w, s.n, s.k, pairing.b));
            for (cpu::Simd path : cpu::available_simd())
                for (int threads : {1, 2, 3}) {
                    Setting setting(path, threads);
                    Memory memory(8 << 20);
                    Arena& arena = memory.arena();
                    const Operand a = cpu::quantize(memory.copy(x, s.m, s.k, pairing.act), pairing.a, Side::a,
                                                    false, arena, {});
                    const Operand b = cpu::quantize(memory.copy(w, s.n, s.k, pairing.act), pairing.b, Side::b,
                                                    false, arena, {});
                    Tensor c = arena.tensor(DType::f32, {s.m, s.n});
                    cpu::gemm(c, a, b, false);
                    INFO(pairing.name << " " << s.m << "x" << s.n << "x" << s.k << " " << cpu::name_of(path)
                                      << " threads " << threads);
                    REQUIRE(same_bits(expected, c.as<float>()));
                }
        }
}

TEST_CASE("a long K in several chunks gives the same bits, and so do blocks of the models' widths",
          "[gemm]") {
    const Shape shapes[] = {{30, 70, 2500}, {3, 64, 4100}, {26, 64, 1536}};
    for (const Pairing& pairing : pairings)
        for (const Shape& s : shapes) {
            const auto x = random_values(s.m * s.k, 3), w = random_values(s.n * s.k, 4);
            const auto expected =
                literal_gemm(side_of(x, s.m, s.k, pairing.a), side_of(w, s.n, s.k, pairing.b));
            for (cpu::Simd path : cpu::available_simd()) {
                Setting setting(path, 2);
                Memory memory(8 << 20);
                const Operand a = cpu::quantize(memory.copy(x, s.m, s.k, pairing.act), pairing.a, Side::a,
                                                false, memory.arena(), {});
                const Operand b = cpu::quantize(memory.copy(w, s.n, s.k, pairing.act), pairing.b, Side::b,
                                                false, memory.arena(), {});
                Tensor c = memory.arena().tensor(DType::f32, {s.m, s.n});
                cpu::gemm(c, a, b, false);
                INFO(pairing.name << " " << s.m << "x" << s.n << "x" << s.k << " " << cpu::name_of(path));
                REQUIRE(same_bits(expected, c.as<float>()));
            }
        }
}

TEST_CASE("a row of a large product equals the same row alone", "[gemm]") {
    const int64_t m = 150, n = 192, k = 576;
    const auto x = random_values(m * k, 5), w = random_values(n * k, 6);
    for (const Pairing& pairing : pairings) {
        if (pairing.a.whole_tensor()) continue;  // one scale for all rows: exact only when it is frozen
        for (cpu::Simd path : cpu::available_simd()) {
            Setting setting(path, 2);
            Memory memory;
            Arena& arena = memory.arena();
            const Operand b =
                cpu::quantize(memory.copy(w, n, k, pairing.act), pairing.b, Side::b, false, arena, {});
            const Tensor all = memory.copy(x, m, k, pairing.act);
            Tensor c = arena.tensor(DType::f32, {m, n}), alone = arena.tensor(DType::f32, {1, n});
            cpu::gemm(c, cpu::quantize(all, pairing.a, Side::a, false, arena, {}), b, false);
            for (int64_t row : {0, 11, 12, 77, 149}) {
                cpu::gemm(alone, cpu::quantize(all.row_range(row, 1), pairing.a, Side::a, false, arena, {}),
                          b, false);
                INFO(pairing.name << " row " << row << " " << cpu::name_of(path));
                REQUIRE(std::memcmp(alone.data, c.as<float>() + row * n, n * 4) == 0);
            }
        }
    }
}

TEST_CASE("results round to BF16 once, and accumulate into F32", "[gemm]") {
    const int64_t m = 14, n = 45, k = 200;
    const auto x = random_values(m * k, 8), w = random_values(n * k, 9), old = random_values(m * n, 10);
    const QuantSpec a_spec = QuantSpec::block_1x128(), b_spec = QuantSpec::block_128x128();
    const Side1 a = side_of(x, m, k, a_spec), b = side_of(w, n, k, b_spec);
    const auto plain = literal_gemm(a, b), added = literal_gemm(a, b, &old);
    for (cpu::Simd path : cpu::available_simd()) {
        Setting setting(path, 2);
        Memory memory;
        Arena& arena = memory.arena();
        const Operand qa =
            cpu::quantize(memory.copy(x, m, k, DType::bf16), a_spec, Side::a, false, arena, {});
        const Operand qb =
            cpu::quantize(memory.copy(w, n, k, DType::bf16), b_spec, Side::b, false, arena, {});
        Tensor half = arena.tensor(DType::bf16, {m, n}), sum = memory.copy(old, m, n, DType::f32);
        cpu::gemm(half, qa, qb, false);
        cpu::gemm(sum, qa, qb, true);
        INFO(cpu::name_of(path));
        size_t wrong = 0;
        for (size_t i = 0; i < plain.size(); ++i) wrong += half.as<bf16>()[i].bits != to_bf16(plain[i]).bits;
        REQUIRE(wrong == 0);
        REQUIRE(same_bits(added, sum.as<float>()));
    }
}

TEST_CASE("denormals, infinities, NaN, huge numbers and zeros give the same bits on every path", "[gemm]") {
    const int64_t m = 17, n = 50, k = 140;
    const float strange[] = {0.0f,
                             -0.0f,
                             float_of_bits(0x00010000u),  // denormal
                             float_of_bits(0x80400000u),  // denormal
                             1e-38f,
                             -1.2e-38f,
                             3.3e38f,
                             -3.3e38f,
                             float_of_bits(f32_infinity_bits),
                             -float_of_bits(f32_infinity_bits),
                             float_of_bits(f32_nan_bits),
                             1.0f};
    for (int which = 0; which < 12; ++which)
        for (const Pairing& pairing : pairings) {
            auto x = random_values(m * k, 11), w = random_values(n * k, 12);
            for (size_t i = 0; i < x.size(); i += 37) x[i] = round_bf16(strange[which]);
            for (size_t i = 5; i < w.size(); i += 101) w[i] = round_bf16(strange[(which + i) % 12]);
            if (which < 6)  // products that vanish
                for (float& v : x) v = round_bf16(v * 1e-37f);
            const auto expected = literal_gemm(side_of(x, m, k, pairing.a), side_of(w, n, k, pairing.b));
            for (cpu::Simd path : cpu::available_simd()) {
                Setting setting(path, 1);
                Memory memory(4 << 20);
                const Operand a = cpu::quantize(memory.copy(x, m, k, pairing.act), pairing.a, Side::a, false,
                                                memory.arena(), {});
                const Operand b = cpu::quantize(memory.copy(w, n, k, pairing.act), pairing.b, Side::b, false,
                                                memory.arena(), {});
                Tensor c = memory.arena().tensor(DType::f32, {m, n});
                cpu::gemm(c, a, b, false);
                INFO(pairing.name << " value " << which << " " << cpu::name_of(path));
                REQUIRE(same_bits(expected, c.as<float>()));
            }
        }
}

TEST_CASE("empty products are empty or zero, and mismatched operands are defects", "[gemm]") {
    Memory memory(1 << 20);
    Arena& arena = memory.arena();
    const auto operand = [&](int64_t rows, int64_t k, Side side, const QuantSpec& spec) {
        return cpu::quantize(arena.tensor(DType::bf16, {rows, k}), spec, side, false, arena, {});
    };
    const QuantSpec spec = QuantSpec::block_1x128();
    Tensor c = arena.tensor(DType::f32, {3, 5});
    std::fill_n(c.as<float>(), 15, 2.0f);
    Tensor none = arena.tensor(DType::f32, {0, 5});
    cpu::gemm(none, operand(0, 64, Side::a, spec), operand(5, 64, Side::b, spec), false);
    const Tensor no_tokens = arena.tensor(DType::bf16, {0, 3}),
                 no_columns = arena.tensor(DType::bf16, {0, 5});
    const Operand dy = cpu::quantize(no_tokens, spec, Side::a, true, arena, {});
    const Operand x = cpu::quantize(no_columns, spec, Side::b, true, arena, {});
    cpu::gemm(c, dy, x, true);
    CHECK(c.as<float>()[14] == 2.0f);
    cpu::gemm(c, dy, x, false);
    CHECK(c.as<float>()[14] == 0.0f);
    CHECK_THROWS_AS(cpu::gemm(c, operand(3, 64, Side::a, spec), operand(5, 32, Side::b, spec), false), Error);
    CHECK_THROWS_AS(cpu::gemm(c, operand(3, 64, Side::a, spec), operand(4, 64, Side::b, spec), false), Error);
    CHECK_THROWS_AS(cpu::gemm(c, operand(3, 64, Side::b, spec), operand(5, 64, Side::b, spec), false), Error);
    CHECK_THROWS_AS(
        cpu::gemm(c, operand(3, 64, Side::a, QuantSpec::mx()), operand(5, 64, Side::b, spec), false), Error);
    CHECK(c.as<float>()[14] == 0.0f);
}
