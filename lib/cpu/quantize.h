// cpu/quantize: activations and gradients as GEMM operands (contracts in backend/backend.h). Layouts are in
// cpu/pack.h.
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

Operand quantize(Tensor x, const QuantSpec& spec, Side side, bool transpose, Arena& arena, const QuantIo& io);
// The operand that quantize() fills, without the maths: same arena bytes, also on a counting arena.
Operand reserve_operand(Tensor x, const QuantSpec& spec, Side side, bool transpose, Arena& arena);
void dequantize(float* out, const Operand& q);
void read_codes(uint8_t* codes, float* scales, const Operand& q);

}  // namespace fp8rl::cpu
