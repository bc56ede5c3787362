// Claims about the codecs, against ml_dtypes' casts in the goldens.
#include "goldens.h"

using namespace fp8rl;
using namespace fp8rl::test;

template <class F>
static void check_format(const std::string& name) {
    INFO(name);
    const auto& decoded = goldens().at("decode").at(name);
    for (int c = 0; c < 256; ++c) {
        INFO("code " << c);
        const float v = decode<F>(static_cast<uint8_t>(c)), expected = f32(decoded[c]);
        if (is_nan(expected))
            CHECK((is_nan(v) && is_nan_code<F>(static_cast<uint8_t>(c))));
        else
            CHECK(bits_of(v) == bits_of(expected));
        CHECK(bits_of(v) == bits_of(decode(F::type, static_cast<uint8_t>(c))));
        if (is_finite(v)) CHECK(encode<F>(v) == c);
    }

    const auto& e = goldens().at("encode").at(name);
    auto run_length = [&](const char* field, auto&& code_of) {
        INFO(field);
        const auto& runs = e.at(field);
        size_t run = 0, wrong = 0;
        for (uint32_t pattern = 0; pattern < 0x8000; ++pattern) {
            while (run + 1 < runs.size() && hex(runs[run + 1][0]) <= pattern) ++run;
            const uint8_t expected = runs[run][1];
            wrong += !same_code(F::type, code_of(float_of_bits(pattern << 16)), expected);
            wrong += !same_code(F::type, code_of(float_of_bits((pattern | 0x8000) << 16)),
                                static_cast<uint8_t>(expected | 0x80));
        }
        CHECK(wrong == 0);
    };
    run_length("satfinite_rle_bf16", [](float x) { return encode<F>(x); });
    run_length("nosat_rle_bf16", [](float x) { return encode_unsaturated<F>(x); });

    for (const auto& row : e.at("midpoints_f32")) {
        const uint32_t mid = hex(row[0]);
        INFO("midpoint " << float_of_bits(mid));
        for (uint32_t i = 0; i < 3; ++i) {
            const float x = float_of_bits(mid - 1 + i);
            CHECK(same_code(F::type, encode<F>(x), row[1 + i]));
            CHECK(same_code(F::type, encode_unsaturated<F>(x), row[4 + i]));
            CHECK(saturates<F>(x) == (row[4 + i].get<int>() > static_cast<int>(F::max_code)));
            CHECK(encode(F::type, x) == encode<F>(x));
        }
    }
    for (const auto& row : e.at("special_f32")) {
        INFO(row[0]);
        CHECK(same_code(F::type, encode<F>(f32(row[1])), row[2]));
        CHECK(same_code(F::type, encode_unsaturated<F>(f32(row[1])), row[3]));
    }
}

TEST_CASE("E4M3 codes decode and encode as ml_dtypes does: all codes, all BF16 patterns, all midpoints") {
    check_format<E4m3>("e4m3");
    CHECK(max_of(DType::e4m3) == 448);
}

TEST_CASE("E5M2 codes decode and encode as ml_dtypes does: all codes, all BF16 patterns, all midpoints") {
    check_format<E5m2>("e5m2");
    CHECK(max_of(DType::e5m2) == 57344);
}

TEST_CASE("E8M0 codes decode, round up and round down as ml_dtypes' table says") {
    const auto& decoded = goldens().at("decode").at("e8m0");
    for (int c = 0; c < 255; ++c) CHECK(bits_of(decode_e8m0(static_cast<uint8_t>(c))) == hex(decoded[c]));
    CHECK(is_nan(decode_e8m0(255)));
    for (const auto& row : goldens().at("encode").at("e8m0")) {
        INFO(row[0]);
        CHECK(e8m0_ceil(f32(row[0])) == row[1]);
        CHECK(e8m0_floor(f32(row[0])) == row[2]);
    }
}

TEST_CASE("BF16 rounds to nearest even, keeps NaN and overflows to Inf") {
    for (const auto& row : goldens().at("encode").at("bf16_from_f32")) {
        INFO(row[0]);
        CHECK(to_bf16(f32(row[0])).bits == hex(row[1]));
    }
    for (uint32_t u : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffc00000u}) {
        const bf16 b = to_bf16(float_of_bits(u));
        CHECK(is_nan(to_float(b)));
        CHECK(b.bits >> 15 == u >> 31);
    }
    for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
        const float x = to_float(bf16{static_cast<uint16_t>(pattern)});
        if (!is_nan(x)) REQUIRE(to_bf16(x).bits == pattern);
    }
}

TEST_CASE("F16 decodes by the definition of IEEE binary16") {
    for (int h = 0; h < 0x10000; ++h) {
        const int e = h >> 10 & 31, m = h & 1023;
        const double sign = h & 0x8000 ? -1 : 1;
        const float v = f16_to_float(static_cast<uint16_t>(h));
        if (e == 31) {
            REQUIRE((m ? is_nan(v) : v == static_cast<float>(sign * INFINITY)));
        } else {
            const double expected = e ? sign * std::ldexp(1024 + m, e - 25) : sign * std::ldexp(m, -24);
            REQUIRE(v == static_cast<float>(expected));
            REQUIRE(bits_of(v) >> 31 == static_cast<uint32_t>(h >> 15));
        }
    }
}
