// nn/saved: what backward needs of one forward, by name: act tensors (bf16; f32 under recipe fp32) and FP32
// statistics. No quantized tensor is ever saved: backward quantizes again in the orientation it needs.
// With recompute only `residual1` of each block is kept; the rest is made again from it, to the bit.
// N rows, C hidden, H heads, K KV heads, D head size, F ffn.
#pragma once
#include <vector>

#include "core/arena.h"
#include "nn/spec.h"

namespace fp8rl {

struct GqaSaved {
    Tensor q_raw, k_raw;    // act [N, H*D], [N, K*D]: before the head norms; empty without qk_norm
    Tensor q_rstd, k_rstd;  // f32 [N*H], [N*K]; empty without qk_norm
    Tensor q, k, v;         // act [N, H*D], [N, K*D] x 2: after RoPE, before the cache
    Tensor out;             // act [N, H*D]
    Tensor lse;             // f32 [N, H]
};

struct MlpSaved {
    Tensor gate, up, hidden;  // act [N, F]; hidden = silu(gate) * up
};

struct BlockSaved {
    Tensor residual1;  // act [N, C]: the block's input
    Tensor rstd1;      // f32 [N]
    Tensor norm1;      // act [N, C]
    GqaSaved attention;
    Tensor residual2;  // act [N, C]
    Tensor rstd2;      // f32 [N]
    Tensor norm2;      // act [N, C]
    MlpSaved mlp;

    // All members but residual1, and residual2 when it is there already.
    void reserve_inner(Arena& arena, const ModelSpec& spec, int64_t rows, DType act);
};

struct Saved {
    explicit Saved(Arena& a) : arena(a) {}
    // Called by Model::forward; everything comes out of `arena`.
    void reserve(const ModelSpec& spec, int64_t rows, DType act, bool recompute);

    Arena& arena;
    std::vector<BlockSaved> blocks;
    Tensor residual;  // act [N, C]: input of the final norm
    Tensor rstd;      // f32 [N]
};

}  // namespace fp8rl
