// cpu/elementwise: sums, biases, SwiGLU and their gradients (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void add(Tensor y, Tensor x);
void add_bias(Tensor y, Tensor bias);
void bias_backward(Tensor dbias, Tensor dy);
void swiglu(Tensor y, Tensor gate, Tensor up);
void swiglu_backward(Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up);

}  // namespace fp8rl::cpu
