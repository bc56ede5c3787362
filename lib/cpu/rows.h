// cpu/rows: picking rows out of a matrix and putting them back (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void gather_rows(Tensor out, Tensor in, std::span<const int32_t> rows);
void scatter_rows(Tensor out, Tensor in, std::span<const int32_t> rows);

}  // namespace fp8rl::cpu
