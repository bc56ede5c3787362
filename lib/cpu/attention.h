// cpu/attention: causal attention over the paged cache and its gradient (contracts in backend/backend.h).
//
// The value of one row (query token t, head h), with j over its keys 0 .. t:
//   q            act; with attention fp8 the E4M3 value of q / q_scale
//   s_j          (sum over d of q_d k_jd by the GEMM rule, blocks of 128) * f, f = scale * k_scale * q_scale
//   chunk        keys 512c .. 512c + 511: m = -inf, l = 0, a = 0; then for each block of 64 keys
//     n = max(m, max s_j), r = exp(m - n), p_j = exp(s_j - n)
//     l = fma(l, r, sum p_j)          64 sums by the row rule
//     b_d = sum over the 64 keys of P_j v_jd by the GEMM rule (total = block + 0), P = bf16(p), or E4M3(256
//     p) a_d = fma(a_d, r, b_d), m = n
//   merge        the first chunk is the state (M, L, A); each further one: N = max(M, m), R = exp(M - N),
//                r = exp(m - N), L = fma(L, R, l r), A_d = fma(A_d, R, a_d r), M = N
//   out_d        round(A_d * (g / L)), g = v_scale (/ 256 with fp8); lse = M + log(L)
// Denormals are flushed in all of it. Keys beyond t count as zeros whatever the pages hold, so which rows a
// tile or a call processes together changes nothing. Scores, P and their gradients never leave the cores'
// caches.
//
// Backward: p = exp(s - lse), dp = dout V^T, ds = p (dp - sum_d dout_d out_d); P and ds are rounded to act
// for dV = P^T dout, dK = ds^T Q, dQ = ds K; tiles of 64 rows (token-major over a KV head's query heads)
// against blocks of 64 keys, in order, summed in FP32.
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void attention(Tensor out, Tensor lse, Tensor q, const KvLayer& kv, std::span<const Sequence> batch,
               const AttentionSpec& spec);
void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q,
                        const KvLayer& kv, std::span<const Sequence> batch, const AttentionSpec& spec);

}  // namespace fp8rl::cpu
