// cpu/peak: what this machine can give, measured in this process, so that bench can print achieved fractions:
// the multiply-accumulate rate of the SIMD path's inner instruction, and the rate of reading memory.
#pragma once

namespace fp8rl::cpu {

// GFLOP/s (a multiply-add is two) over the pool's threads: vdpbf16ps on avx512_bf16, FP32 fused multiply-adds
// elsewhere. Takes about 0.1 s.
double dot_peak();
// GB/s over the pool's threads, reading a block that no cache holds. Takes about 0.2 s.
double read_peak();

}  // namespace fp8rl::cpu
