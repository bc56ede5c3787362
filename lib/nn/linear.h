// nn/linear: the one place of the network where FP8 happens. One input, one or more weights that read it (q,
// k and v; gate and up): the input is quantized once for all of them.
//   forward   y_i = x W_i^T + b_i              x and W quantized (precision.activation, .weight)
//   dgrad     dx  = sum_i dy_i W_i             dy quantized (precision.gradient), W's own codes transposed
//   wgrad     dW_i += dy_i^T x                 both quantized anew along the tokens
// A layer whose precision is not quantized takes the plain branch of operand(): the same GEMMs on bf16.
// Refuses nothing: precisions were resolved before; a missing scale is a defect.
#pragma once
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "nn/network.h"

namespace fp8rl {

class Linear {
  public:
    struct Output {
        std::string name;  // published module name
        int64_t size;
        bool bias;
    };
    Linear(Network& net, int layer, int64_t in, std::initializer_list<Output> outputs);

    // x act [N, C]; y_i act [N, O_i], overwritten.
    void forward(Pass& pass, std::initializer_list<Tensor> y, Tensor x) const;
    // dx [N, C] overwritten: f32 with several outputs (they are summed in it), else act or f32. dy_i act [N,
    // O_i].
    void backward(Pass& pass, Tensor dx, std::initializer_list<Tensor> dy, Tensor x) const;

  private:
    // Where a quantized tensor takes its frozen scale from and reports to.
    struct Slots {
        int scale = -1;
        int counter = -1;
    };
    struct Out {
        Param* weight;
        Param* bias;
        LinearPrecision train, rollout;
        int gradient_counter = -1;
        const LinearPrecision& precision(const Pass& pass) const { return pass.in_rollout ? rollout : train; }
    };
    Operand operand(Pass& pass, Tensor t, const QuantSpec& spec, Side side, bool transpose,
                    Slots slots) const;
    Slots activation_slots(const Pass& pass) const;

    Network& net_;
    std::vector<Out> outputs_;
    Slots train_, rollout_;  // of the shared input
};

}  // namespace fp8rl
