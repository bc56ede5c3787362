// io/half: 16-bit floats of files to float. (What the program computes with is lib/quant/formats.)
#pragma once
#include <bit>
#include <cstdint>

namespace fp8rl {

inline float bf16_to_float(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

// IEEE half, without branches that keep a loop from being vectorized: normals are scaled by 2^-112 after
// their exponent was moved, subnormals come out of a float subtraction.
inline float half_to_float(uint16_t h) {
    const uint32_t w = static_cast<uint32_t>(h) << 16, sign = w & 0x80000000u, two_w = w + w;
    const float normal =
        std::bit_cast<float>((two_w >> 4) + (uint32_t{0xE0} << 23)) * std::bit_cast<float>(0x7800000u);
    const float subnormal = std::bit_cast<float>((two_w >> 17) | (uint32_t{126} << 23)) - 0.5f;
    const uint32_t magnitude = std::bit_cast<uint32_t>(two_w < (1u << 27) ? subnormal : normal);
    return std::bit_cast<float>(sign | magnitude);
}

}  // namespace fp8rl
