// cpu/attention: causal attention over the paged cache and its gradient (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void attention(Tensor out, Tensor lse, Tensor q, const KvLayer& kv, std::span<const Sequence> batch,
               const AttentionSpec& spec);
void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q,
                        const KvLayer& kv, std::span<const Sequence> batch, const AttentionSpec& spec);

}  // namespace fp8rl::cpu
