// cpu/kv: the paged KV cache (contracts in backend/backend.h) and where an element of it lies.
// A page holds kv_page_tokens tokens of all KV heads; of one head first K, then V:
//   K bf16, e4m3: [D / 2][16 tokens][2]    f32: [D][16 tokens]      lanes run over keys for Q K^T
//   V bf16, e4m3: [8 token pairs][P][2]    f32: [16 tokens][P]      lanes run over P = D rounded up to 16 for
//   P V
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

struct KvLayout {
    KvLayout(DType format, int kv_heads, int head_dim);

    DType format;
    int64_t head_dim, padded;                // D, P
    size_t k_bytes, head_bytes, page_bytes;  // of one head and page; K and V of it; all heads
    int64_t k_index(int64_t token, int64_t d) const {
        return format == DType::f32 ? d * kv_page_tokens + token
                                    : d / 2 * 2 * kv_page_tokens + token * 2 + d % 2;
    }
    int64_t v_index(int64_t token, int64_t d) const {
        return format == DType::f32 ? token * padded + d : token / 2 * 2 * padded + d * 2 + token % 2;
    }
};

size_t kv_page_bytes(DType format, int kv_heads, int head_dim);
void kv_append(const KvLayer& kv, Tensor k, Tensor v, std::span<const Sequence> batch);
void kv_copy_page(const KvLayer& kv, int32_t dst, int32_t src);

// Raises *to to at least x; both >= 0. Safe among threads, and their order does not matter.
void raise_to(float* to, float x);

}  // namespace fp8rl::cpu
