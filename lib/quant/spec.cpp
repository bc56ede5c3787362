// quant/spec: the text form of a QuantSpec, as the plan's table and messages print it.
#include "quant/spec.h"

#include "core/error.h"

namespace fp8rl {

std::string describe(const QuantSpec& s) {
    if (!s.quantized()) return name_of(s.format);
    auto extent = [](int32_t n) { return n ? std::to_string(n) : std::string("all"); };
    std::string blocks = s.whole_tensor() ? "tensor" : extent(s.block_rows) + "x" + extent(s.block_k);
    const char* scale = s.scale == ScaleKind::e8m0   ? "e8m0"
                        : s.scale == ScaleKind::pow2 ? "pow2"
                        : s.scale == ScaleKind::f32  ? "f32"
                                                     : "unscaled";
    std::string text = cat(name_of(s.format), " ", blocks, " ", scale);
    if (s.whole_tensor())
        text += s.scaling == Scaling::delayed ? " delayed"
                : s.scaling == Scaling::fixed ? " static"
                                              : " current";
    if (s.rule == ScaleRule::vllm) text += " vllm";
    return text;
}

}  // namespace fp8rl
