// nn/gqa: grouped-query attention. Keys and values always pass through a KV cache and its codes: the
// scheduler's in rollout, a throw-away one of this layer in training, with the same format and scales.
#pragma once
#include <optional>

#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/saved.h"

namespace fp8rl {

class Gqa {
  public:
    Gqa(Network& net, const std::string& prefix, int layer);
    // y act [N, C] = attention(x); x act [N, C] is the normed input.
    void forward(Pass& pass, Tensor y, GqaSaved& s, Tensor x) const;
    // dx f32 [N, C], overwritten; dy act [N, C].
    void backward(Pass& pass, Tensor dx, Tensor dy, const GqaSaved& s, Tensor x) const;

  private:
    KvLayer cache(Pass& pass, bool observe) const;
    AttentionSpec attention(const KvLayer& kv, bool observe) const;

    Network& net_;
    int layer_;
    Linear qkv_, o_;
    std::optional<Norm> q_norm_, k_norm_;
    float scale_;
};

}  // namespace fp8rl
