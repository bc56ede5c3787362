// nn/norm: RMSNorm, with the residual addition before it. r = residual + delta; y = r / rms(r) * gain.
#pragma once
#include "nn/network.h"

namespace fp8rl {

class Norm {
  public:
    Norm(Network& net, const std::string& name, int64_t width, int layer)
        : net_(net), gain_(net.vector(name + ".weight", width, layer)) {}

    // y, r act [N, C], rstd f32 [N]. delta and r may be empty together: y = norm(residual).
    void forward(Tensor y, Tensor r, Tensor rstd, Tensor residual, Tensor delta) const {
        net_.backend.add_rmsnorm(y, r, rstd, residual, delta, gain_->master, eps());
    }
    // dr += gradient of the norm (`overwrite`: dr = it); dy f32 or act [N, C].
    void backward(Tensor dr, Tensor dy, Tensor r, Tensor rstd, bool overwrite) const {
        net_.backend.rmsnorm_backward(dr, gain_->grad, dy, r, rstd, gain_->master, overwrite);
    }

  private:
    float eps() const { return static_cast<float>(net_.spec.rms_eps); }

    Network& net_;
    Param* gain_;
};

}  // namespace fp8rl
