// Dequantization of ggml blocks; the layouts are those of ggml-quants.c. Blocks stand at any even address, so
// every read goes through memcpy. Multiplication before addition, each rounded: the same floats as ggml's
// reference.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/parallel.h"
#include "io/gguf.h"
#include "io/gguf_types.h"
#include "io/half.h"

namespace fp8rl {

static constexpr GgmlType types[] = {
    {ggml_f32, "F32", 1, 4},
    {ggml_f16, "F16", 1, 2},
    {ggml_q4_0, "Q4_0", 32, 18},
    {ggml_q4_1, "Q4_1", 32, 20},
    {6, "Q5_0", 32, 22},
    {7, "Q5_1", 32, 24},
    {ggml_q8_0, "Q8_0", 32, 34},
    {9, "Q8_1", 32, 40},
    {10, "Q2_K", 256, 84},
    {11, "Q3_K", 256, 110},
    {12, "Q4_K", 256, 144},
    {13, "Q5_K", 256, 176},
    {ggml_q6_k, "Q6_K", 256, 210},
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    {20, "IQ4_NL", 32, 18},
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    {23, "IQ4_XS", 256, 136},
    {24, "I8", 1, 1},
    {25, "I16", 1, 2},
    {26, "I32", 1, 4},
    {27, "I64", 1, 8},
    {28, "F64", 1, 8},
    {29, "IQ1_M", 256, 56},
    {ggml_bf16, "BF16", 1, 2},
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    {39, "MXFP4", 32, 17},
};

const GgmlType* ggml_type(uint32_t id) {
    for (const GgmlType& t : types)
        if (t.id == id) return &t;
    return nullptr;
}

std::string GgufTensor::type_name() const {
    const GgmlType* t = ggml_type(type);
    return t ? t->name : "type " + std::to_string(type);
}

static uint16_t load16(const uint8_t* p) {
    uint16_t v;
    std::memcpy(&v, p, 2);
    return v;
}

static void decode_f16(const uint8_t* p, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = half_to_float(load16(p + 2 * i));
}

static void decode_bf16(const uint8_t* p, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = bf16_to_float(load16(p + 2 * i));
}

static void decode_q8_0(const uint8_t* p, int64_t blocks, float* out) {
    for (int64_t b = 0; b < blocks; ++b, p += 34, out += 32) {
        const float d = half_to_float(load16(p));
        for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(static_cast<int8_t>(p[2 + j])) * d;
    }
}

static void decode_q4_0(const uint8_t* p, int64_t blocks, float* out) {
    for (int64_t b = 0; b < blocks; ++b, p += 18, out += 32) {
        const float d = half_to_float(load16(p));
        for (int j = 0; j < 16; ++j) out[j] = static_cast<float>((p[2 + j] & 15) - 8) * d;
        for (int j = 0; j < 16; ++j) out[16 + j] = static_cast<float>((p[2 + j] >> 4) - 8) * d;
    }
}

static void decode_q4_1(const uint8_t* p, int64_t blocks, float* out) {
    for (int64_t b = 0; b < blocks; ++b, p += 20, out += 32) {
        const float d = half_to_float(load16(p)), m = half_to_float(load16(p + 2));
        for (int j = 0; j < 16; ++j) out[j] = static_cast<float>(p[4 + j] & 15) * d + m;
        for (int j = 0; j < 16; ++j) out[16 + j] = static_cast<float>(p[4 + j] >> 4) * d + m;
    }
}

// 256 elements: 128 bytes of low nibbles, 64 of high bit pairs, 16 signed 8-bit scales, one half.
static void decode_q6_k(const uint8_t* p, int64_t blocks, float* out) {
    for (int64_t b = 0; b < blocks; ++b, p += 210) {
        const float d = half_to_float(load16(p + 208));
        for (int part = 0; part < 2; ++part, out += 128) {
            const uint8_t *low = p + 64 * part, *high = p + 128 + 32 * part, *scale = p + 192 + 8 * part;
            float s[8];
            for (int j = 0; j < 8; ++j) s[j] = d * static_cast<float>(static_cast<int8_t>(scale[j]));
            for (int j = 0; j < 32; ++j) {
                const int k = j / 16;
                out[j] = s[k] * static_cast<float>(((low[j] & 15) | ((high[j] & 3) << 4)) - 32);
                out[32 + j] =
                    s[2 + k] * static_cast<float>(((low[32 + j] & 15) | ((high[j] >> 2 & 3) << 4)) - 32);
                out[64 + j] = s[4 + k] * static_cast<float>(((low[j] >> 4) | ((high[j] >> 4 & 3) << 4)) - 32);
                out[96 + j] =
                    s[6 + k] * static_cast<float>(((low[32 + j] >> 4) | ((high[j] >> 6) << 4)) - 32);
            }
        }
    }
}

bool GgufFile::can_dequantize(uint32_t type) {
    switch (type) {
        case ggml_f32:
        case ggml_f16:
        case ggml_bf16:
        case ggml_q8_0:
        case ggml_q4_0:
        case ggml_q4_1:
        case ggml_q6_k: return true;
    }
    return false;
}

void GgufFile::dequantize_rows(const GgufTensor& t, int64_t first, int64_t count, float* out) const {
    check(first >= 0 && count >= 0 && first + count <= t.rows(), path(), ": tensor ", t.name, ": rows ",
          first, "+", count, " of ", t.rows());
    if (!can_dequantize(t.type))
        refuse(path(), ": tensor ", t.name, ": type ", t.type_name(),
               " is not supported; F32, F16, BF16, Q8_0, Q4_0, Q4_1 and Q6_K are");
    if (count == 0) return;
    const GgmlType& type = *ggml_type(t.type);
    const int64_t row_blocks = t.cols() / type.block, blocks = count * row_blocks;
    const uint8_t* p = file_.data() + t.offset + static_cast<uint64_t>(first * row_blocks) * type.bytes;
    switch (t.type) {
        case ggml_f32: std::memcpy(out, p, static_cast<size_t>(blocks) * 4); return;
        case ggml_f16: return decode_f16(p, blocks, out);
        case ggml_bf16: return decode_bf16(p, blocks, out);
        case ggml_q8_0: return decode_q8_0(p, blocks, out);
        case ggml_q4_0: return decode_q4_0(p, blocks, out);
        case ggml_q4_1: return decode_q4_1(p, blocks, out);
        case ggml_q6_k: return decode_q6_k(p, blocks, out);
    }
}

void GgufFile::dequantize(const GgufTensor& t, std::span<float> out) const {
    check(static_cast<int64_t>(out.size()) == t.size(), path(), ": tensor ", t.name, ": ", t.size(),
          " elements into ", out.size());
    const int64_t grain = std::max<int64_t>(1, 65536 / std::max<int64_t>(1, t.cols()));
    parallel::for_range(t.rows(), grain, [&](int64_t begin, int64_t end, int) {
        dequantize_rows(t, begin, end - begin, out.data() + begin * t.cols());
    });
}

std::vector<float> GgufFile::dequantize(std::string_view name) const {
    const GgufTensor& t = tensor(name);
    std::vector<float> out(static_cast<size_t>(t.size()));
    dequantize(t, out);
    return out;
}

}  // namespace fp8rl
