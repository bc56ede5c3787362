// cuda/cuda_backend: the CUDA backend as the rest of the program sees it. A build without CUDA links
// no_cuda.cpp.
#pragma once
#include <memory>

#include "backend/backend.h"

namespace fp8rl {

// A device that this build can use.
bool cuda_available();
// Refused by name in a build without CUDA.
std::unique_ptr<Backend> make_cuda_backend();

}  // namespace fp8rl
