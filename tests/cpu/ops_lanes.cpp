// The lanes of cpu/vec: exp and log against the C library in double, every SIMD level against the scalar
// functions.
#include <limits>

#include "cpu/simd.h"
#include "cpu/vec.h"
#include "ops_support.h"

#define FP8RL_KERNELS_WITH_DOT
#define FP8RL_KERNELS "cpu/ops_lanes_kernels.inc"
#include "cpu/each_simd.inc"

using namespace fp8rl;
using namespace fp8rl::cpu;
using namespace fp8rl::test;

namespace {

double ulps(float got, double expected) {
    int exponent;
    std::frexp(expected, &exponent);
    return std::fabs(got - expected) / std::ldexp(1.0, exponent - 24);
}

// Every upper half of a float with lower halves that round up, down and to a tie; 16-lane multiples.
std::vector<float> all_kinds() {
    std::vector<float> v;
    for (uint32_t high = 0; high < 65536; ++high)
        for (uint32_t low : {0x0000u, 0x7fffu, 0x8000u, 0x8001u})
            v.push_back(float_of_bits(high << 16 | low));
    return v;
}

template <class Out, class Run>
void lanes_equal(size_t n, Run run) {
    const Restore restore;
    set_simd(Simd::scalar);
    std::vector<Out> expected(n), got(n);
    run(expected.data());
    for (Simd s : available_simd()) {
        set_simd(s);
        run(got.data());
        INFO(name_of(s));
        size_t first = 0;
        while (first < n && std::memcmp(&got[first], &expected[first], sizeof(Out)) == 0) ++first;
        INFO("element " << first);
        REQUIRE(first == n);
    }
}

}  // namespace

TEST_CASE("exp and log are within two units in the last place of the true value") {
    double worst_exp = 0, worst_log = 0;
    Random random(3, Stream::test);
    for (int i = 0; i < 400000; ++i) {
        const float x = -87.3f + 176.0f * random.uniform();
        worst_exp = std::max(worst_exp, ulps(exp_f32(x), std::exp(static_cast<double>(x))));
        const float y = float_of_bits(0x00800000u + random.bits() % 0x7f000000u);
        worst_log = std::max(worst_log, ulps(log_f32(y), std::log(static_cast<double>(y))));
        const float near_one = 0.9f + 0.2f * random.uniform();
        if (near_one != 1.0f)
            worst_log = std::max(worst_log, ulps(log_f32(near_one), std::log(static_cast<double>(near_one))));
    }
    INFO("exp " << worst_exp << ", log " << worst_log);
    CHECK(worst_exp < 2);
    CHECK(worst_log < 2);
}

TEST_CASE("exp and log keep their special values") {
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    CHECK(bits_of(exp_f32(0.0f)) == bits_of(1.0f));
    CHECK(bits_of(exp_f32(-inf)) == 0);
    CHECK(exp_f32(-88.0f) == 0);
    CHECK(exp_f32(inf) == inf);
    CHECK(exp_f32(89.0f) == inf);
    CHECK(is_finite(exp_f32(88.7f)));
    CHECK(is_nan(exp_f32(nan)));
    CHECK(bits_of(log_f32(1.0f)) == 0);
    CHECK(log_f32(0.0f) == -inf);
    CHECK(log_f32(1e-40f) == -inf);
    CHECK(log_f32(inf) == inf);
    CHECK(is_nan(log_f32(-1.0f)));
    CHECK(is_nan(log_f32(nan)));
}

TEST_CASE("each lane function gives the scalar function's bits") {
    const std::vector<float> x = all_kinds();
    const int64_t n = static_cast<int64_t>(x.size());
    lanes_equal<float>(x.size(), [&](float* to) { FP8RL_PICK(exp_of)(to, x.data(), n); });
    lanes_equal<bf16>(x.size(), [&](bf16* to) { FP8RL_PICK(bf16_of)(to, x.data(), n); });
    lanes_equal<float>(x.size(), [&](float* to) { FP8RL_PICK(bf16_value_of)(to, x.data(), n); });
    lanes_equal<float>(x.size(), [&](float* to) { FP8RL_PICK(e4m3_value_of)(to, x.data(), n); });
    lanes_equal<uint8_t>(x.size(), [&](uint8_t* to) { FP8RL_PICK(e4m3_code_of)(to, x.data(), n); });
    std::vector<uint8_t> codes(256);
    for (size_t i = 0; i < 256; ++i) codes[i] = static_cast<uint8_t>(i * 37);
    lanes_equal<bf16>(256, [&](bf16* to) { FP8RL_PICK(e4m3_decoded)(to, codes.data(), 256); });
    std::vector<float> even(16), odd(16);
    for (size_t i = 0; i < 16; ++i) even[i] = x[i * 997 + 5], odd[i] = x[i * 1231 + 7];
    lanes_equal<bf16>(32, [&](bf16* to) { FP8RL_PICK(pairs_of)(to, even.data(), odd.data()); });
}

TEST_CASE("partial loads and stores touch the lanes asked for and no others") {
    const Restore restore;
    for (Simd s : available_simd()) {
        set_simd(s);
        for (int n = 0; n <= 16; ++n) {
            std::vector<float> from(static_cast<size_t>(n), 3.0f), to(16, -1.0f);
            FP8RL_PICK(part_of)(to.data(), from.data(), n);
            std::vector<bf16> from16(static_cast<size_t>(n), to_bf16(3.0f)), to16(16, to_bf16(-1.0f));
            FP8RL_PICK(part_of_bf16)(to16.data(), from16.data(), n);
            for (int i = 0; i < 16; ++i) {
                REQUIRE(to[static_cast<size_t>(i)] == (i < n ? 3.0f : -1.0f));
                REQUIRE(to_float(to16[static_cast<size_t>(i)]) == (i < n ? 3.0f : -1.0f));
            }
        }
    }
}

TEST_CASE("folds, comparisons and selections agree on random and special lanes") {
    Random random(5, Stream::test);
    for (int trial = 0; trial < 200; ++trial) {
        std::vector<float> x(32);
        for (float& v : x) v = trial % 4 == 3 ? float_of_bits(random.bits()) : random.normal();
        if (trial % 3 == 0)
            x[3] = std::numeric_limits<float>::quiet_NaN(), x[20] = -0.0f, x[4] = 0.0f, x[17] = x[1];
        for (float& v : x)
            if (is_nan(v)) v = std::numeric_limits<float>::quiet_NaN();
        lanes_equal<float>(36, [&](float* to) { FP8RL_PICK(folds_of)(to, x.data()); });
    }
}

TEST_CASE("the pair dot is two fused multiply-adds, the odd element first, denormals flushed") {
    Random random(7, Stream::test);
    for (int trial = 0; trial < 3000; ++trial) {
        std::vector<float> acc(16);
        std::vector<bf16> a(32), b(32);
        const auto draw = [&] {
            const float x = random.normal();
            switch (random.integer(0, 9)) {
                case 0: return 0.0f;
                case 1: return x * 1e-20f;
                case 2: return x * 1e-38f;
                case 3: return x * 1e18f;
                default: return x;
            }
        };
        for (float& v : acc) v = draw();
        for (bf16& v : a) v = to_bf16(draw());
        for (bf16& v : b) v = to_bf16(draw());
        const FlushToZero flush;
        lanes_equal<float>(32, [&](float* to) { FP8RL_PICK(dots_of)(to, acc.data(), a.data(), b.data()); });
    }
}
