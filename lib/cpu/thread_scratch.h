// cpu/thread_scratch: one fixed buffer per thread for GEMM kernels (expanded panels, tiles, totals). Made at
// the thread's first use and kept, so no call allocates; Backend::workspace_bytes counts it. Its contents die
// when the chunk of work ends.
#pragma once
#include <cstddef>

namespace fp8rl::cpu {

inline constexpr size_t thread_scratch_bytes = size_t{2} << 20;

// thread_scratch_bytes long, aligned to a page.
char* thread_scratch();

}  // namespace fp8rl::cpu
