// cpu/kv: the paged KV cache (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

size_t kv_page_bytes(DType format, int kv_heads, int head_dim);
void kv_append(const KvLayer& kv, Tensor k, Tensor v, std::span<const Sequence> batch);
void kv_copy_page(const KvLayer& kv, int32_t dst, int32_t src);

}  // namespace fp8rl::cpu
