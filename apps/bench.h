// apps/bench: the parts of `fp8rl bench`.
#pragma once
#include "backend/backend.h"
#include "nn/spec.h"
#include "run/metrics.h"

namespace fp8rl::apps {

// GFLOP/s of the model's GEMM shapes at several row counts, BF16 and blockwise FP8, operands quantized before
// the clock starts; `dot` is the machine's peak in GFLOP/s.
void bench_gemm(run::Record& record, Backend& backend, const ModelSpec& spec, double dot);

}  // namespace fp8rl::apps
