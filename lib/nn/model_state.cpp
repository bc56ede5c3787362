// nn/model_state: what changes from step to step beside the parameters. Refused: state of another model or of
// another precision recipe, by name.
#include "nn/model_impl.h"

namespace fp8rl {

std::vector<KvFallback> Model::begin_step() {
    auto& net = impl_->net;
    net.scales.begin_step();
    std::vector<KvFallback> moved = net.kv.guard();
    net.kv.recalibrate();
    return moved;
}

void Model::reduce_observations(FunctionRef<void(std::span<float>)> max_over_ranks,
                                FunctionRef<void(std::span<double>)> sum_over_ranks) {
    auto& net = impl_->net;
    const Tensor maxima[] = {net.scales.amax_values(), net.kv.k_amax, net.kv.v_amax, net.kv.q_amax};
    for (const Tensor& t : maxima) {
        if (!t) continue;
        std::vector<float> host(static_cast<size_t>(t.size()));
        net.backend.download(host.data(), t);
        max_over_ranks(host);
        net.backend.upload(t, host.data());
    }
    std::vector<int64_t> counts(static_cast<size_t>(net.kv.counts.size()));
    net.backend.download(counts.data(), net.kv.counts);
    std::vector<double> sums(counts.begin(), counts.end());  // exact below 2^53
    sum_over_ranks(sums);
    counts.assign(sums.begin(), sums.end());
    net.backend.upload(net.kv.counts, counts.data());
}

void Model::mark_calibrated() {
    impl_->net.scales.mark_calibrated();
    impl_->net.kv.mark_calibrated();
}

std::vector<Model::State> Model::state() const {
    std::vector<State> out = impl_->net.scales.state();
    out.push_back({"kv_scales", impl_->net.kv.state()});
    return out;
}

void Model::restore(const std::vector<State>& state) {
    auto& net = impl_->net;
    net.scales.restore(state);
    const State* kv = nullptr;
    for (const auto& s : state)
        if (s.name == "kv_scales") kv = &s;
    if (!kv) refuse("state kv_scales is missing");
    net.kv.restore(kv->values);
    const size_t expected = this->state().size();
    if (state.size() != expected)
        refuse("state: ", state.size(), " entries, this model's recipe has ", expected);
}

std::vector<RoleCounts> Model::take_counts() {
    auto& net = impl_->net;
    net.kv.read_counts();
    std::vector<RoleCounts> out = net.counters.take();
    net.params.visit([&](const Param& p) {
        if (p.kind != Param::Kind::matrix || !p.weight.spec.forward.quantized()) return;
        const std::string module = p.name.substr(0, p.name.size() - std::string(".weight").size());
        out.push_back({module, p.layer, Role::weight, p.weight.counts});
    });
    return out;
}

}  // namespace fp8rl
