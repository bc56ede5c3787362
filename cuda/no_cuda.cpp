// The CUDA backend of a build without CUDA: it is not there, and says so by name.
#include "cuda/cuda_backend.h"

namespace fp8rl {

bool cuda_available() { return false; }

std::unique_ptr<Backend> make_cuda_backend() { refuse("device.backend: cuda is not in this build; use cpu"); }

}  // namespace fp8rl
