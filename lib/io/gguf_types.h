// io/gguf_types: the block size and bytes of every ggml tensor type, so that sizes can be checked and types
// named even where nothing here decodes them. Source: ggml's type table.
#pragma once
#include <cstdint>

namespace fp8rl {

struct GgmlType {
    uint32_t id;
    const char* name;
    int64_t block;   // elements
    uint64_t bytes;  // of a block
};

enum GgmlId : uint32_t {
    ggml_f32 = 0,
    ggml_f16 = 1,
    ggml_q4_0 = 2,
    ggml_q4_1 = 3,
    ggml_q8_0 = 8,
    ggml_q6_k = 14,
    ggml_bf16 = 30,
};

const GgmlType* ggml_type(uint32_t id);  // nullptr: unknown

}  // namespace fp8rl
