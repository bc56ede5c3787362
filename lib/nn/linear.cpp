// nn/linear: the three GEMMs of a linear layer, in whatever precision its QuantSpecs say.
#include "nn/linear.h"

namespace fp8rl {

Linear::Linear(Network& net, int layer, int64_t in, std::initializer_list<Output> outputs) : net_(net) {
    const auto& o = net.options;
    for (const auto& output : outputs) {
        Out out{};
        out.train = o.precision.at(output.name);
        out.rollout = o.differs_in_rollout ? o.rollout_precision.at(output.name) : out.train;
        Param p;
        p.name = output.name + ".weight";
        p.rows = output.size;
        p.cols = in;
        p.layer = layer;
        p.weight.spec.forward = out.train.weight;
        p.weight.spec.backward = o.train;
        p.weight.spec.backward_spec = out.train.backward_quantized() ? out.train.weight : net.plain();
        p.differs_in_rollout = out.rollout.weight != out.train.weight;
        p.rollout.spec.forward = out.rollout.weight;
        out.weight = &net.params.add(std::move(p));
        out.bias = output.bias ? net.vector(output.name + ".bias", output.size, layer) : nullptr;
        if (o.train && out.train.backward_quantized())
            out.gradient_counter = net.counters.add(output.name, layer, Role::gradient);
        // The shared input's scale and counter stand under the first module that quantizes it.
        if (out.train.activation.quantized() && train_.counter < 0) {
            train_.scale = net.scales.add(output.name, out.train.activation, o.precision.rules().per_tensor);
            train_.counter = net.counters.add(output.name, layer, Role::activation);
        }
        if (o.differs_in_rollout && out.rollout.activation.quantized() && rollout_.counter < 0) {
            rollout_.scale = net.scales.add("rollout." + output.name, out.rollout.activation,
                                            o.rollout_precision.rules().per_tensor);
            rollout_.counter =
                train_.counter >= 0 ? train_.counter : net.counters.add(output.name, layer, Role::activation);
        }
        outputs_.push_back(out);
    }
    if (!o.differs_in_rollout) rollout_ = train_;
}

Linear::Slots Linear::activation_slots(const Pass& pass) const { return pass.in_rollout ? rollout_ : train_; }

Operand Linear::operand(Pass& pass, Tensor t, const QuantSpec& spec, Side side, bool transpose,
                        Slots slots) const {
    if (!spec.quantized()) return net_.backend.quantize(t, net_.plain(), side, transpose, pass.scratch);
    QuantSpec used = spec;
    QuantIo io;
    if (!pass.replay) io.counts = net_.counters.at(slots.counter);
    if (spec.scaling == Scaling::delayed) {
        if (pass.reports()) io.amax = net_.scales.amax(slots.scale);
        if (pass.calibrate) used.scaling = Scaling::current;
    }
    if (used.scaling != Scaling::current) io.multiplier = net_.scales.multiplier(slots.scale);
    return net_.backend.quantize(t, used, side, transpose, pass.scratch, io);
}

void Linear::forward(Pass& pass, std::initializer_list<Tensor> y, Tensor x) const {
    check(y.size() == outputs_.size(), "linear: ", y.size(), " destinations for ", outputs_.size(),
          " outputs");
    auto scope = pass.scratch.scope();
    Operand plain, quantized;
    const Tensor* dst = y.begin();
    for (const Out& out : outputs_) {
        const QuantSpec& spec = out.precision(pass).activation;
        Operand& a = spec.quantized() ? quantized : plain;
        if (!a.data) a = operand(pass, x, spec, Side::a, false, activation_slots(pass));
        net_.backend.gemm(*dst, a, out.weight->used(pass.in_rollout).forward);
        if (out.bias) net_.backend.add_bias(*dst, out.bias->master);
        ++dst;
    }
}

void Linear::backward(Pass& pass, Tensor dx, std::initializer_list<Tensor> dy, Tensor x) const {
    check(dy.size() == outputs_.size(), "linear: ", dy.size(), " gradients for ", outputs_.size(),
          " outputs");
    auto scope = pass.scratch.scope();
    Operand plain_xt, quantized_xt;
    for (const Out& out : outputs_) {
        const bool q = out.train.backward_quantized();
        Operand& xt = q ? quantized_xt : plain_xt;
        if (!xt.data) xt = operand(pass, x, q ? out.train.activation : net_.plain(), Side::b, true, train_);
    }
    const Tensor* d = dy.begin();
    for (const Out& out : outputs_) {
        const Slots slots{-1, out.gradient_counter};
        const QuantSpec& spec = out.train.gradient;
        {
            auto inner = pass.scratch.scope();
            const Operand g = operand(pass, *d, spec, Side::a, false, slots);
            net_.backend.gemm(dx, g, out.weight->weight.backward, d != dy.begin());
        }
        {
            auto inner = pass.scratch.scope();
            const Operand gt = operand(pass, *d, spec, Side::a, true, slots);
            const Operand& xt = out.train.backward_quantized() ? quantized_xt : plain_xt;
            net_.backend.gemm(out.weight->grad, gt, xt, true);
        }
        if (out.bias) net_.backend.bias_backward(out.bias->grad, *d);
        ++d;
    }
}

}  // namespace fp8rl
