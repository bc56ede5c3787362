// cpu/gemm: C[m, n] = sum_k A[m, k] B[n, k], the one GEMM form (contract and order of summation in
// backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void gemm(Tensor c, const Operand& a, const Operand& b, bool accumulate);

}  // namespace fp8rl::cpu
