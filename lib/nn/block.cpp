// nn/block: the two halves of a decoder layer, forward and backward.
#include "nn/block.h"

namespace fp8rl {

static std::string layer_name(int layer) { return "model.layers." + std::to_string(layer); }

Block::Block(Network& net, int layer)
    : net_(net),
      norm1_(net, layer_name(layer) + ".input_layernorm", net.spec.hidden, layer),
      norm2_(net, layer_name(layer) + ".post_attention_layernorm", net.spec.hidden, layer),
      attention_(net, layer_name(layer) + ".self_attn", layer),
      mlp_(net, layer_name(layer) + ".mlp", layer) {}

void Block::forward(Pass& pass, BlockSaved& s, Tensor residual, Tensor delta_in, Tensor delta_out) const {
    norm1_.forward(s.norm1, delta_in ? s.residual1 : Tensor(), s.rstd1, residual, delta_in);
    attention_.forward(pass, delta_out, s.attention, s.norm1);
    norm2_.forward(s.norm2, s.residual2, s.rstd2, s.residual1, delta_out);
    mlp_.forward(pass, delta_out, s.mlp, s.norm2);
}

void Block::backward(Pass& pass, Tensor dr, const BlockSaved& s) const {
    auto scope = pass.scratch.scope();
    Tensor dnorm = pass.scratch.tensor(DType::f32, {pass.rows(), net_.spec.hidden});
    mlp_.backward(pass, dnorm, dr, s.mlp, s.norm2);
    norm2_.backward(dr, dnorm, s.residual2, s.rstd2, false);
    attention_.backward(pass, dnorm, dr, s.attention, s.norm1);
    norm1_.backward(dr, dnorm, s.residual1, s.rstd1, false);
}

}  // namespace fp8rl
