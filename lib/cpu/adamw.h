// cpu/adamw: sum of squares and AdamW (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

double sum_squares(Tensor x);
void adamw(Tensor master, Tensor grad, Tensor m, Tensor v, const AdamwParams& p);

}  // namespace fp8rl::cpu
