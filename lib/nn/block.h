// nn/block: one decoder layer.
//   residual1 = input + previous block's output     norm1 -> attention -> a
//   residual2 = residual1 + a                       norm2 -> mlp -> output (added by the next block)
#pragma once
#include "nn/gqa.h"
#include "nn/mlp.h"
#include "nn/norm.h"

namespace fp8rl {

class Block {
  public:
    Block(Network& net, int layer);
    // s.residual1 = residual + delta_in, or is `residual` itself when delta_in is empty. delta_out act [N,
    // C]: the block's output, to be added to s.residual2; it may be delta_in's memory.
    void forward(Pass& pass, BlockSaved& s, Tensor residual, Tensor delta_in, Tensor delta_out) const;
    // dr act [N, C]: in, the gradient of residual2 and of the output (they are equal); out, of residual1.
    void backward(Pass& pass, Tensor dr, const BlockSaved& s) const;

  private:
    Network& net_;
    Norm norm1_, norm2_;
    Gqa attention_;
    Mlp mlp_;
};

}  // namespace fp8rl
