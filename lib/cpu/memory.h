// cpu/memory: allocation, copies and conversions; host and device memory are one here.
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void* allocate(size_t bytes);
void release(void* p);
size_t memory_bytes();  // of this machine
size_t workspace_bytes();
void zero(Tensor t);
void copy(Tensor dst, Tensor src);

}  // namespace fp8rl::cpu
