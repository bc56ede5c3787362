// cpu/rope: rotary position embedding in place, and its inverse (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void rope(Tensor x, std::span<const int32_t> positions, Tensor table, int head_dim, bool inverse);

}  // namespace fp8rl::cpu
