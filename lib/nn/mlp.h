// nn/mlp: y = (silu(x Wg^T) * (x Wu^T)) Wd^T.
#pragma once
#include "nn/linear.h"
#include "nn/saved.h"

namespace fp8rl {

class Mlp {
  public:
    Mlp(Network& net, const std::string& prefix, int layer);
    void forward(Pass& pass, Tensor y, MlpSaved& s, Tensor x) const;  // y, x act [N, C]
    // dx f32 [N, C], overwritten; dy act [N, C].
    void backward(Pass& pass, Tensor dx, Tensor dy, const MlpSaved& s, Tensor x) const;

  private:
    Network& net_;
    Linear gate_up_, down_;
};

}  // namespace fp8rl
