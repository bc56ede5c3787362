// Reading tests/data/fp8_goldens.json: bit patterns to numbers, code strings to bytes. Made with ml_dtypes
// and NumPy (docs of the file: field "meta"); nothing in it comes from this program. The rules deepgemm_* and
// mx_ocp_floor are other projects': their entries are not compared.
#pragma once
#include <vector>

#include "core/error.h"
#include "quant/quantize.h"
#include "test.h"

namespace fp8rl::test {

using Json = nlohmann::json;

inline const Json& goldens() {
    static const Json g = read_json("fp8_goldens.json");
    return g;
}

inline uint32_t hex(const Json& s) {
    return static_cast<uint32_t>(std::stoul(s.get<std::string>(), nullptr, 16));
}
inline float f32(const Json& s) { return float_of_bits(hex(s)); }
inline float bf16_value(const Json& s) { return float_of_bits(hex(s) << 16); }

inline std::vector<float> f32s(const Json& a) {
    std::vector<float> v;
    for (const auto& s : a) v.push_back(f32(s));
    return v;
}
inline std::vector<uint8_t> bytes(const Json& s) {
    const auto text = s.get<std::string>();
    std::vector<uint8_t> v;
    for (size_t i = 0; i < text.size(); i += 2)
        v.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
    return v;
}
inline std::vector<float> bf16s(const Json& s) {
    const auto text = s.get<std::string>();
    std::vector<float> v;
    for (size_t i = 0; i < text.size(); i += 4)
        v.push_back(float_of_bits(static_cast<uint32_t>(std::stoul(text.substr(i, 4), nullptr, 16)) << 16));
    return v;
}

struct Matrix {
    int64_t rows, k;
    std::vector<float> x;
};
inline Matrix input(const char* name) {
    const auto& m = goldens().at("inputs").at(name);
    return {m.at("shape")[0], m.at("shape")[1], bf16s(m.at("bf16"))};
}

// FP8 NaN is compared by class; everything else by value.
inline bool same_code(DType format, uint8_t a, uint8_t b) {
    const bool e5m2 = format == DType::e5m2;
    const bool na = e5m2 ? is_nan_code<E5m2>(a) : is_nan_code<E4m3>(a);
    const bool nb = e5m2 ? is_nan_code<E5m2>(b) : is_nan_code<E4m3>(b);
    return na && nb ? true : a == b;
}
inline bool same_codes(DType format, const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i)
        if (!same_code(format, a[i], b[i])) return false;
    return true;
}
// The bits of floats, so that -0 and NaN count.
inline std::vector<uint32_t> bits(const std::vector<float>& v) {
    std::vector<uint32_t> b;
    for (float x : v) b.push_back(bits_of(x));
    return b;
}

}  // namespace fp8rl::test
