// nn/mlp: SwiGLU feed-forward, forward and backward.
#include "nn/mlp.h"

namespace fp8rl {

Mlp::Mlp(Network& net, const std::string& prefix, int layer)
    : net_(net),
      gate_up_(net, layer, net.spec.hidden,
               {{prefix + ".gate_proj", net.spec.ffn, false}, {prefix + ".up_proj", net.spec.ffn, false}}),
      down_(net, layer, net.spec.ffn, {{prefix + ".down_proj", net.spec.hidden, false}}) {}

void Mlp::forward(Pass& pass, Tensor y, MlpSaved& s, Tensor x) const {
    gate_up_.forward(pass, {s.gate, s.up}, x);
    net_.backend.swiglu(s.hidden, s.gate, s.up);
    down_.forward(pass, {y}, s.hidden);
}

void Mlp::backward(Pass& pass, Tensor dx, Tensor dy, const MlpSaved& s, Tensor x) const {
    auto scope = pass.scratch.scope();
    const int64_t n = pass.rows();
    Tensor dgate = pass.scratch.tensor(net_.act(), {n, net_.spec.ffn});
    Tensor dup = pass.scratch.tensor(net_.act(), {n, net_.spec.ffn});
    {
        auto inner = pass.scratch.scope();
        Tensor dhidden = pass.scratch.tensor(net_.act(), {n, net_.spec.ffn});
        down_.backward(pass, dhidden, {dy}, s.hidden);
        net_.backend.swiglu_backward(dgate, dup, dhidden, s.gate, s.up);
    }
    gate_up_.backward(pass, dx, {dgate, dup}, x);
}

}  // namespace fp8rl
