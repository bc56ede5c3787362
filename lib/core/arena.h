// core/arena: bump allocation with scopes and a high-water mark. Memory comes from outside (a backend), is
// never grown, and running out is a defect: the plan sized it. A counting arena has no memory; it only tells
// how much a run needs.
#pragma once
#include <cstddef>
#include <string>

#include "core/tensor.h"

namespace fp8rl {

class Arena {
  public:
    static constexpr size_t alignment = 256;  // bytes; also what cuBLASLt asks of a workspace

    // Uses [base, base + capacity), which must outlive the arena.
    Arena(std::string name, void* base, size_t capacity);
    // Hands out addresses that must not be read or written; capacity is unlimited.
    static Arena counting(std::string name);

    void* allocate(size_t bytes);
    Tensor tensor(DType type, std::initializer_list<int64_t> dims);
    template <class T>
    T* array(size_t n) {
        return static_cast<T*>(allocate(n * sizeof(T)));
    }

    // Everything allocated after `scope()` is given back when the Scope ends.
    class Scope {
      public:
        explicit Scope(Arena& a) : arena_(a), top_(a.used_) {}
        ~Scope() { arena_.used_ = top_; }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

      private:
        Arena& arena_;
        size_t top_;
    };
    Scope scope() { return Scope(*this); }
    void reset() { used_ = 0; }

    const std::string& name() const { return name_; }
    bool is_counting() const { return counting_; }
    size_t used() const { return used_; }
    size_t high_water() const { return high_water_; }
    size_t capacity() const { return capacity_; }

  private:
    std::string name_;
    char* base_;
    size_t capacity_;
    size_t used_ = 0;
    size_t high_water_ = 0;
    bool counting_ = false;
};

}  // namespace fp8rl
