// cpu/buffer: see the header. Memory that the machine refuses is Fault::device.
#include "cpu/buffer.h"

#include <atomic>
#include <new>

#include "core/error.h"

namespace fp8rl::cpu {
namespace {
std::atomic<size_t> total{0};
constexpr std::align_val_t alignment{256};
}  // namespace

Buffer::~Buffer() {
    if (data_) ::operator delete(data_, alignment);
    total -= capacity_;
}

void* Buffer::reserve(size_t bytes) {
    if (bytes > capacity_) {
        if (data_) ::operator delete(data_, alignment);
        total -= capacity_;
        capacity_ = 0;
        data_ = ::operator new(bytes, alignment, std::nothrow);
        if (!data_) device_failed("out of memory: ", bytes, " bytes of working memory");
        capacity_ = bytes;
        total += bytes;
    }
    return data_;
}

size_t buffer_bytes() { return total; }

}  // namespace fp8rl::cpu
