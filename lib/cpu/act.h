// cpu/act: activations come as bf16 or f32; an op's template is chosen here, once per call.
#pragma once
#include "core/error.h"
#include "core/tensor.h"

namespace fp8rl::cpu {

// Calls body(T{}) with T the element type of `type`; any type but bf16 and f32 is a defect of `op`.
template <class F>
void with_act(const char* op, DType type, F&& body) {
    if (type == DType::bf16) return body(bf16{});
    if (type == DType::f32) return body(float{});
    defect(op, ": ", name_of(type), " is neither bf16 nor f32");
}

inline bool same_shape(const Tensor& a, const Tensor& b) {
    return a.rows() == b.rows() && a.cols() == b.cols();
}

// What norm, bias and embedding gradients take: rows in groups of this many, each summed in order, the
// groups' sums then added in order. Part of the ops' definition.
inline constexpr int64_t row_group = 32;

}  // namespace fp8rl::cpu
