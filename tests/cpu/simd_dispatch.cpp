// The choice of path, the modes a GEMM sets, and the machine's measured peaks.
#include "cpu/simd.h"

#include <algorithm>

#include "core/parallel.h"
#include "cpu/cpu_backend.h"
#include "cpu/peak.h"
#include "gemm_support.h"
#include "test.h"

using namespace fp8rl;
using namespace fp8rl::test;

TEST_CASE("paths have names, scalar always runs, and the path in use is one of those available", "[simd]") {
    const auto paths = cpu::available_simd();
    REQUIRE(!paths.empty());
    CHECK(paths.front() == cpu::Simd::scalar);
    CHECK(std::count(paths.begin(), paths.end(), cpu::simd()) == 1);
    CHECK(std::string(cpu::name_of(cpu::Simd::avx512_bf16)) == "avx512_bf16");
    for (cpu::Simd s : paths) {
        Setting setting(s, 1);
        CHECK(cpu::simd() == s);
    }
}

TEST_CASE("a product leaves the floating-point modes as they were", "[simd]") {
    Memory memory(1 << 20);
    Tensor c = memory.arena().tensor(DType::f32, {4, 8});
    const Tensor x = memory.arena().tensor(DType::bf16, {4, 16}),
                 w = memory.arena().tensor(DType::bf16, {8, 16});
    std::memset(x.data, 0, x.bytes());
    std::memset(w.data, 0, w.bytes());
    const auto a = cpu::quantize(x, QuantSpec::bf16(), Side::a, false, memory.arena(), {});
    const auto b = cpu::quantize(w, QuantSpec::bf16(), Side::b, false, memory.arena(), {});
    const unsigned before = _mm_getcsr() & 0xffc0u;
    cpu::gemm(c, a, b, false);
    CHECK((_mm_getcsr() & 0xffc0u) == before);
}

TEST_CASE("measured peaks are positive", "[simd]") {
    Setting setting(cpu::simd(), 1);
    CHECK(cpu::dot_peak() > 0.1);
    CHECK(cpu::read_peak() > 0.1);
}
