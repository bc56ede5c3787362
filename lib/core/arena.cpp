#include "core/arena.h"

#include <limits>

namespace fp8rl {

Arena::Arena(std::string name, void* base, size_t capacity)
    : name_(std::move(name)), base_(static_cast<char*>(base)), capacity_(capacity) {
    check(reinterpret_cast<uintptr_t>(base) % alignment == 0, "arena ", name_, ": base is not aligned to ",
          alignment);
}

Arena Arena::counting(std::string name) {
    // A non-null base, so that views made from it do not look empty.
    Arena a(std::move(name), reinterpret_cast<void*>(uintptr_t{1} << 40),
            std::numeric_limits<size_t>::max() / 4);
    a.counting_ = true;
    return a;
}

void* Arena::allocate(size_t bytes) {
    size_t begin = (used_ + alignment - 1) / alignment * alignment;
    check(bytes <= capacity_ && begin <= capacity_ - bytes, "arena ", name_, ": ", bytes, " bytes asked, ",
          capacity_ - used_, " of ", capacity_, " left; the plan counted less than the run uses");
    used_ = begin + bytes;
    if (used_ > high_water_) high_water_ = used_;
    return base_ + begin;
}

Tensor Arena::tensor(DType type, std::initializer_list<int64_t> dims) {
    Tensor t(nullptr, type, dims);
    t.data = allocate(t.bytes());
    return t;
}

}  // namespace fp8rl
