// cpu/buffer: working memory of ops, beside the arenas: buffers that only grow, so that a steady state
// allocates nothing, counted for Backend::workspace_bytes. Contents do not survive between calls; one op at a
// time uses one.
#pragma once
#include <cstddef>

namespace fp8rl::cpu {

class Buffer {
  public:
    Buffer() = default;
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    // At least `bytes`, aligned to 256, not cleared; earlier pointers into this buffer die when it grows.
    void* reserve(size_t bytes);
    template <class T>
    T* array(size_t n) {
        return static_cast<T*>(reserve(n * sizeof(T)));
    }

  private:
    void* data_ = nullptr;
    size_t capacity_ = 0;
};

// Held by all of them together.
size_t buffer_bytes();

}  // namespace fp8rl::cpu
