// nn/saved: the sizes of saved tensors, in one place for the forward, the recomputation and the plan.
#include "nn/saved.h"

namespace fp8rl {

void BlockSaved::reserve_inner(Arena& arena, const ModelSpec& s, int64_t n, DType act) {
    const int64_t q_width = s.heads * s.head_dim, kv_width = s.kv_heads * s.head_dim;
    rstd1 = arena.tensor(DType::f32, {n});
    norm1 = arena.tensor(act, {n, s.hidden});
    auto& a = attention;
    if (s.qk_norm) {
        a.q_raw = arena.tensor(act, {n, q_width});
        a.k_raw = arena.tensor(act, {n, kv_width});
        a.q_rstd = arena.tensor(DType::f32, {n * s.heads});
        a.k_rstd = arena.tensor(DType::f32, {n * s.kv_heads});
    }
    a.q = arena.tensor(act, {n, q_width});
    a.k = arena.tensor(act, {n, kv_width});
    a.v = arena.tensor(act, {n, kv_width});
    a.out = arena.tensor(act, {n, q_width});
    a.lse = arena.tensor(DType::f32, {n, s.heads});
    if (!residual2) residual2 = arena.tensor(act, {n, s.hidden});
    rstd2 = arena.tensor(DType::f32, {n});
    norm2 = arena.tensor(act, {n, s.hidden});
    mlp.gate = arena.tensor(act, {n, s.ffn});
    mlp.up = arena.tensor(act, {n, s.ffn});
    mlp.hidden = arena.tensor(act, {n, s.ffn});
}

void Saved::reserve(const ModelSpec& spec, int64_t rows, DType act, bool recompute) {
    blocks.assign(static_cast<size_t>(spec.layers), {});
    for (auto& b : blocks) {
        b.residual1 = arena.tensor(act, {rows, spec.hidden});
        if (!recompute) b.reserve_inner(arena, spec, rows, act);
    }
    residual = arena.tensor(act, {rows, spec.hidden});
    rstd = arena.tensor(DType::f32, {rows});
}

}  // namespace fp8rl
