// cpu/cpu_backend: the CPU backend, the definition of every op. One op family per file of this room; SIMD
// paths are chosen at run time and give the same bits (cpu/simd).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace fp8rl {

std::unique_ptr<Backend> make_cpu_backend();

namespace cpu {

enum class Simd { scalar, avx2, avx512, avx512_bf16 };

// Paths this machine can run, slowest first.
std::vector<Simd> available_simd();
const char* name_of(Simd s);
// The path in use: the best available, or FP8RL_SIMD=scalar|avx2|avx512|avx512_bf16 (refused by name when the
// CPU lacks it).
Simd simd();
// For tests.
void set_simd(Simd s);

}  // namespace cpu
}  // namespace fp8rl
