// A second oracle where the CUDA Toolkit is installed: the host code of its cuda_fp8.hpp and cuda_bf16.hpp.
#if __has_include("/usr/local/cuda/include/cuda_fp8.h")
#define FP8RL_CUDA_ORACLE
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wconversion"
#include "/usr/local/cuda/include/cuda_bf16.h"
#include "/usr/local/cuda/include/cuda_fp8.h"
#pragma GCC diagnostic pop
#endif

#include "goldens.h"

using namespace fp8rl;
using namespace fp8rl::test;

#ifdef FP8RL_CUDA_ORACLE
TEST_CASE("codecs equal CUDA's host functions over all 65,536 BF16 patterns") {
    for (uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
        const float x = float_of_bits(pattern << 16);
        INFO("bf16 " << pattern);
        REQUIRE(encode<E4m3>(x) == __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3));
        REQUIRE(encode<E5m2>(x) == __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2));
        REQUIRE(same_code(DType::e4m3, encode_unsaturated<E4m3>(x),
                          __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E4M3)));  // the sign of NaN is free
        REQUIRE(encode_unsaturated<E5m2>(x) == __nv_cvt_float_to_fp8(x, __NV_NOSAT, __NV_E5M2));
        // NaN (and what is below the E8M0 range) is left to the goldens: CUDA saturates by another table
        // there.
        if (x > 0 && is_finite(x))
            REQUIRE(e8m0_ceil(x) == __nv_cvt_float_to_e8m0(x, __NV_SATFINITE, cudaRoundPosInf));
    }
}

TEST_CASE("codecs equal CUDA's host functions on 200,000 random F32 patterns, and decode as it does") {
    uint64_t state = 1;
    for (int i = 0; i < 200000; ++i) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        const float x = float_of_bits(static_cast<uint32_t>(state >> 32));
        INFO("f32 " << bits_of(x));
        REQUIRE(encode<E4m3>(x) == __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3));
        REQUIRE(encode<E5m2>(x) == __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E5M2));
        if (!is_nan(x)) REQUIRE(to_bf16(x).bits == __nv_bfloat16_raw(__float2bfloat16_rn(x)).x);
    }
    for (int c = 0; c < 256; ++c) {
        const auto code = static_cast<uint8_t>(c);
        __nv_fp8_e4m3 a;
        __nv_fp8_e5m2 b;
        a.__x = b.__x = code;
        const float va = static_cast<float>(a), vb = static_cast<float>(b);
        CHECK((is_nan(va) ? is_nan(decode<E4m3>(code)) : bits_of(va) == bits_of(decode<E4m3>(code))));
        CHECK((is_nan(vb) ? is_nan(decode<E5m2>(code)) : bits_of(vb) == bits_of(decode<E5m2>(code))));
    }
}
#endif
