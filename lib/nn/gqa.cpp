// nn/gqa: projections, head norms, RoPE, cache, attention; and all of it backwards.
#include "nn/gqa.h"

#include <algorithm>
#include <cmath>

namespace fp8rl {

static float score_scale(const ModelSpec& spec) {
    const double factor = attention_factor(spec.rope);
    return static_cast<float>(factor * factor / std::sqrt(static_cast<double>(spec.head_dim)));
}

Gqa::Gqa(Network& net, const std::string& prefix, int layer)
    : net_(net),
      layer_(layer),
      qkv_(net, layer, net.spec.hidden,
           {{prefix + ".q_proj", net.spec.heads * net.spec.head_dim, net.spec.attention_bias},
            {prefix + ".k_proj", net.spec.kv_heads * net.spec.head_dim, net.spec.attention_bias},
            {prefix + ".v_proj", net.spec.kv_heads * net.spec.head_dim, net.spec.attention_bias}}),
      o_(net, layer, net.spec.heads * net.spec.head_dim,
         {{prefix + ".o_proj", net.spec.hidden, net.spec.o_bias}}),
      scale_(score_scale(net.spec)) {
    if (net.spec.qk_norm) {
        q_norm_.emplace(net, prefix + ".q_norm", net.spec.head_dim, layer);
        k_norm_.emplace(net, prefix + ".k_norm", net.spec.head_dim, layer);
    }
}

// Heads as rows of their own: [N, H*D] -> [N*H, D].
static Tensor by_head(Tensor t, int64_t head_dim) { return t.reshaped({t.size() / head_dim, head_dim}); }

KvLayer Gqa::cache(Pass& pass, bool observe) const {
    if (pass.cache) {
        check(!pass.calibrate, "calibration runs on whole sequences, without a KV cache");
        return pass.cache->layer(layer_, observe);
    }
    int32_t pages = 0;
    for (const Sequence& s : pass.sequences) {
        check(s.past == 0, "a sequence with a past needs a KV cache");
        for (int32_t i = 0; i * kv_page_tokens < s.rows; ++i) pages = std::max(pages, s.pages[i] + 1);
    }
    const DType format = pass.calibrate ? net_.act() : net_.kv.format(layer_);
    // As large as it gets when the guard moves this layer to bf16: the plan counted it so.
    size_t bytes = 0;
    for (DType f : {format, net_.act()})
        bytes = std::max(bytes, net_.backend.kv_page_bytes(f, static_cast<int>(net_.spec.kv_heads),
                                                           static_cast<int>(net_.spec.head_dim)));
    return net_.kv.layer(layer_, pass.scratch.allocate(bytes * static_cast<size_t>(pages)), format, observe);
}

AttentionSpec Gqa::attention(const KvLayer& kv, bool observe) const {
    AttentionSpec a;
    a.heads = static_cast<int>(net_.spec.heads);
    a.kv_heads = static_cast<int>(net_.spec.kv_heads);
    a.head_dim = static_cast<int>(net_.spec.head_dim);
    a.scale = scale_;
    if (net_.options.kv.fp8_attention) {
        const int64_t at = layer_ * net_.spec.kv_heads;
        a.fp8 = kv.format == DType::e4m3;
        if (a.fp8) a.q_scale = net_.kv.q_scale.as<float>() + at;
        if (observe) a.q_amax = net_.kv.q_amax.as<float>() + at;
    }
    return a;
}

void Gqa::forward(Pass& pass, Tensor y, GqaSaved& s, Tensor x) const {
    auto& backend = net_.backend;
    const int64_t d = net_.spec.head_dim;
    if (q_norm_) {
        qkv_.forward(pass, {s.q_raw, s.k_raw, s.v}, x);
        q_norm_->forward(by_head(s.q, d), {}, s.q_rstd, by_head(s.q_raw, d), {});
        k_norm_->forward(by_head(s.k, d), {}, s.k_rstd, by_head(s.k_raw, d), {});
    } else {
        qkv_.forward(pass, {s.q, s.k, s.v}, x);
    }
    backend.rope(s.q, pass.positions, net_.rope_table, static_cast<int>(d), false);
    backend.rope(s.k, pass.positions, net_.rope_table, static_cast<int>(d), false);
    {
        auto scope = pass.scratch.scope();
        const KvLayer kv = cache(pass, pass.reports());
        backend.kv_append(kv, s.k, s.v, pass.sequences);
        backend.attention(s.out, s.lse, s.q, kv, pass.sequences, attention(kv, pass.reports()));
    }
    o_.forward(pass, {y}, s.out);
}

void Gqa::backward(Pass& pass, Tensor dx, Tensor dy, const GqaSaved& s, Tensor x) const {
    auto& backend = net_.backend;
    auto scope = pass.scratch.scope();
    const int64_t n = pass.rows(), d = net_.spec.head_dim;
    const DType act = net_.act();
    Tensor dq = pass.scratch.tensor(act, {n, s.q.cols()});
    Tensor dk = pass.scratch.tensor(act, {n, s.k.cols()});
    Tensor dv = pass.scratch.tensor(act, {n, s.v.cols()});
    {
        auto inner = pass.scratch.scope();
        Tensor dout = pass.scratch.tensor(act, {n, s.out.cols()});
        o_.backward(pass, dout, {dy}, s.out);
        const KvLayer kv = cache(pass, false);
        backend.kv_append(kv, s.k, s.v, pass.sequences);
        backend.attention_backward(dq, dk, dv, dout, s.out, s.lse, s.q, kv, pass.sequences,
                                   attention(kv, false));
    }
    backend.rope(dq, pass.positions, net_.rope_table, static_cast<int>(d), true);
    backend.rope(dk, pass.positions, net_.rope_table, static_cast<int>(d), true);
    if (q_norm_) {
        Tensor dq_raw = pass.scratch.tensor(act, {n, s.q.cols()});
        Tensor dk_raw = pass.scratch.tensor(act, {n, s.k.cols()});
        q_norm_->backward(by_head(dq_raw, d), by_head(dq, d), by_head(s.q_raw, d), s.q_rstd, true);
        k_norm_->backward(by_head(dk_raw, d), by_head(dk, d), by_head(s.k_raw, d), s.k_rstd, true);
        dq = dq_raw;
        dk = dk_raw;
    }
    qkv_.backward(pass, dx, {dq, dk, dv}, x);
}

}  // namespace fp8rl
