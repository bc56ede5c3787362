// cpu/norm: residual add with RMSNorm and its gradient (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void add_rmsnorm(Tensor y, Tensor r_out, Tensor rstd, Tensor residual, Tensor delta, Tensor gain, float eps);
void rmsnorm_backward(Tensor dresidual, Tensor dgain, Tensor dy, Tensor x, Tensor rstd, Tensor gain,
                      bool overwrite);

}  // namespace fp8rl::cpu
