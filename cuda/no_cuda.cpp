// The CUDA backend of a build without CUDA: it is not there, and says so by name.
