// cpu/embed: token embedding and its gradient (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void embed(Tensor y, const Weight& table, std::span<const int32_t> ids);
void embed_backward(Tensor dtable, Tensor dy, std::span<const int32_t> ids);

}  // namespace fp8rl::cpu
