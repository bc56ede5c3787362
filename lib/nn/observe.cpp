// nn/observe: step-frozen activation scales and quantization counters.
#include "nn/observe.h"

namespace fp8rl {

int ActivationScales::add(const std::string& name, const QuantSpec& spec, const PerTensorRules& rules) {
    if (!spec.quantized() || spec.scaling == Scaling::current) return -1;
    check(!multiplier_, "activation scale ", name, " added after reserve");
    const bool delayed = spec.scaling == Scaling::delayed;
    slots_.push_back({name, delayed, !delayed, static_cast<float>(1.0 / rules.static_scale),
                      DelayedScale(spec.format, rules, spec.scale == ScaleKind::pow2)});
    return static_cast<int>(slots_.size()) - 1;
}

void ActivationScales::reserve(Arena& arena) {
    if (slots_.empty()) return;
    multiplier_ = arena.tensor(DType::f32, {static_cast<int64_t>(slots_.size())});
    amax_ = arena.tensor(DType::f32, {static_cast<int64_t>(slots_.size())});
    backend_.zero(amax_);
    upload_multipliers();
}

const float* ActivationScales::multiplier(int slot) const {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    check(s.ready, "activation scale of ", s.name, " is missing: nothing was calibrated");
    return static_cast<const float*>(multiplier_.data) + slot;
}

float* ActivationScales::amax(int slot) const { return static_cast<float*>(amax_.data) + slot; }

void ActivationScales::upload_multipliers() {
    std::vector<float> m;
    m.reserve(slots_.size());
    for (const auto& s : slots_) m.push_back(s.delayed ? s.scale.multiplier() : s.fixed_multiplier);
    backend_.upload(multiplier_, m.data());
}

void ActivationScales::begin_step() {
    if (slots_.empty()) return;
    std::vector<float> amax(slots_.size());
    backend_.download(amax.data(), amax_);
    for (size_t i = 0; i < slots_.size(); ++i) {
        Slot& s = slots_[i];
        if (!s.delayed) continue;
        s.scale.observe(amax[i]);
        s.scale.begin_step();
        if (amax[i] > 0) s.ready = true;
    }
    upload_multipliers();
    backend_.zero(amax_);
}

void ActivationScales::mark_calibrated() {
    for (auto& s : slots_) s.ready = true;
}

std::vector<Model::State> ActivationScales::state() const {
    std::vector<Model::State> out;
    if (slots_.empty()) return out;
    std::vector<float> amax(slots_.size());
    backend_.download(amax.data(), amax_);
    for (size_t i = 0; i < slots_.size(); ++i) {
        const Slot& s = slots_[i];
        if (!s.delayed) continue;
        Model::State entry{"activation_scale." + s.name,
                           {s.ready ? 1.0f : 0.0f, amax[i], s.scale.multiplier()}};
        const auto& h = s.scale.history();
        entry.values.insert(entry.values.end(), h.begin(), h.end());
        out.push_back(std::move(entry));
    }
    return out;
}

void ActivationScales::restore(const std::vector<Model::State>& state) {
    if (slots_.empty()) return;
    std::vector<float> amax(slots_.size(), 0.0f);
    for (size_t i = 0; i < slots_.size(); ++i) {
        Slot& s = slots_[i];
        if (!s.delayed) continue;
        const std::string name = "activation_scale." + s.name;
        const Model::State* found = nullptr;
        for (const auto& entry : state)
            if (entry.name == name) found = &entry;
        if (!found) refuse("state ", name, " is missing");
        const size_t expected = 3 + s.scale.history().size();
        if (found->values.size() != expected)
            refuse("state ", name, ": ", found->values.size(), " values, this recipe's history needs ",
                   expected);
        s.ready = found->values[0] != 0;
        amax[i] = found->values[1];
        s.scale.restore({found->values.begin() + 3, found->values.end()}, found->values[2]);
    }
    backend_.upload(amax_, amax.data());
    upload_multipliers();
}

int Counters::add(const std::string& module, int layer, Role role) {
    check(!counts_, "counter of ", module, " added after reserve");
    slots_.push_back({module, layer, role, {}});
    return static_cast<int>(slots_.size()) - 1;
}

void Counters::reserve(Arena& arena) {
    if (slots_.empty()) return;
    counts_ = arena.tensor(DType::i64, {static_cast<int64_t>(slots_.size()), 3});
    backend_.zero(counts_);
}

QuantCounts* Counters::at(int slot) const { return static_cast<QuantCounts*>(counts_.data) + slot; }

std::vector<RoleCounts> Counters::take() {
    static_assert(sizeof(QuantCounts) == 3 * sizeof(int64_t));
    std::vector<RoleCounts> out = slots_;
    if (out.empty()) return out;
    std::vector<QuantCounts> host(slots_.size());
    backend_.download(host.data(), counts_);
    backend_.zero(counts_);
    for (size_t i = 0; i < out.size(); ++i) out[i].counts = host[i];
    return out;
}

}  // namespace fp8rl
