// cpu/weight: prepared weights, every layout that the GEMMs read, rebuilt from the FP32 master.
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

Weight reserve_weight(int64_t out, int64_t in, const WeightSpec& spec, Arena& arena);
void prepare(Weight& w, Tensor master);

}  // namespace fp8rl::cpu
