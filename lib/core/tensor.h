// core/tensor: a non-owning, contiguous, row-major view. Owners are arenas (core/arena) and files (lib/io).
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <ostream>

#include "core/dtype.h"
#include "core/error.h"

namespace fp8rl {

struct Tensor {
    void* data = nullptr;
    DType dtype = DType::f32;
    int rank = 0;
    std::array<int64_t, 4> shape{};

    Tensor() = default;
    Tensor(void* d, DType t, std::initializer_list<int64_t> dims) : data(d), dtype(t) {
        for (int64_t n : dims) {
            check(rank < 4 && n >= 0, "tensor: at most 4 non-negative dimensions");
            shape[rank++] = n;
        }
    }

    explicit operator bool() const { return data != nullptr; }
    int64_t size() const {
        int64_t n = rank ? 1 : 0;
        for (int i = 0; i < rank; ++i) n *= shape[i];
        return n;
    }
    int64_t cols() const { return rank ? shape[rank - 1] : 0; }            // the last dimension
    int64_t rows() const { return rank && cols() ? size() / cols() : 0; }  // all the others
    size_t bytes() const { return static_cast<size_t>(size()) * size_of(dtype); }

    // The elements as T; FP8 codes and raw bytes are read as uint8_t.
    template <class T>
    T* as() const {
        if constexpr (sizeof(T) == 1)
            check(size_of(dtype) == 1, "tensor of ", name_of(dtype), " read as bytes");
        else
            check(dtype == dtype_of<T>::value, "tensor of ", name_of(dtype), " read as ",
                  name_of(dtype_of<T>::value));
        return static_cast<T*>(data);
    }

    // Rows [begin, begin + count) of the [rows, cols] reading.
    Tensor row_range(int64_t begin, int64_t count) const {
        check(begin >= 0 && count >= 0 && begin + count <= rows(), "tensor: rows ", begin, "+", count, " of ",
              rows());
        Tensor t(static_cast<char*>(data) + static_cast<size_t>(begin * cols()) * size_of(dtype), dtype,
                 {count, cols()});
        return t;
    }
    Tensor reshaped(std::initializer_list<int64_t> dims) const {
        Tensor t(data, dtype, dims);
        check(t.size() == size(), "tensor: reshape of ", size(), " elements to ", t.size());
        return t;
    }
};

// "[4, 8] bf16" when it is streamed: checks name shapes on every op call and must not build text unless they
// fail.
struct ShapeText {
    const Tensor& tensor;
};
inline ShapeText shape_text(const Tensor& t) { return {t}; }
inline std::ostream& operator<<(std::ostream& out, const ShapeText& s) {
    out << '[';
    for (int i = 0; i < s.tensor.rank; ++i) out << (i ? ", " : "") << s.tensor.shape[i];
    return out << "] " << name_of(s.tensor.dtype);
}

}  // namespace fp8rl
