// core/dtype: the element types a tensor can hold. What the bits of each mean is lib/quant/formats.
#pragma once
#include <cstddef>
#include <cstdint>

namespace fp8rl {

// Storage only; arithmetic happens in float (lib/quant/formats converts).
struct bf16 {
    uint16_t bits;
};
static_assert(sizeof(bf16) == 2);

enum class DType : uint8_t { f32, bf16, f16, e4m3, e5m2, e8m0, i32, i64, u8 };

constexpr size_t size_of(DType t) {
    switch (t) {
        case DType::i64: return 8;
        case DType::f32:
        case DType::i32: return 4;
        case DType::bf16:
        case DType::f16: return 2;
        default: return 1;
    }
}

constexpr const char* name_of(DType t) {
    switch (t) {
        case DType::f32: return "f32";
        case DType::bf16: return "bf16";
        case DType::f16: return "f16";
        case DType::e4m3: return "e4m3";
        case DType::e5m2: return "e5m2";
        case DType::e8m0: return "e8m0";
        case DType::i32: return "i32";
        case DType::i64: return "i64";
        case DType::u8: return "u8";
    }
    return "?";
}

// The DType of a C++ element type; u8 stands for raw bytes and FP8 codes alike.
template <class T>
struct dtype_of;
template <>
struct dtype_of<float> {
    static constexpr DType value = DType::f32;
};
template <>
struct dtype_of<bf16> {
    static constexpr DType value = DType::bf16;
};
template <>
struct dtype_of<int32_t> {
    static constexpr DType value = DType::i32;
};
template <>
struct dtype_of<int64_t> {
    static constexpr DType value = DType::i64;
};

}  // namespace fp8rl
