// quant/policy: see the header. The one place where a recipe's mode becomes QuantSpec values.
#include "quant/policy.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace fp8rl {

static const char* name_of(PrecisionMode m) {
    switch (m) {
        case PrecisionMode::bf16: return "bf16";
        case PrecisionMode::fp32: return "fp32";
        case PrecisionMode::per_tensor: return "per_tensor";
        case PrecisionMode::blockwise: return "blockwise";
        case PrecisionMode::mxfp8: return "mxfp8";
    }
    return "?";
}

static bool has_codes(PrecisionMode m) { return m != PrecisionMode::bf16 && m != PrecisionMode::fp32; }

LinearPrecision linear_precision(const PrecisionRules& rules) {
    LinearPrecision p;
    const ScaleKind kind = rules.pow2_scales ? ScaleKind::pow2 : ScaleKind::f32;
    const DType gradient = rules.backward == BackwardFormat::e5m2 ? DType::e5m2 : DType::e4m3;
    switch (rules.recipe) {
        case PrecisionMode::bf16: break;
        case PrecisionMode::fp32: p.weight = p.activation = p.gradient = QuantSpec::f32(); break;
        case PrecisionMode::per_tensor:
            p.weight = QuantSpec::tensor(DType::e4m3, kind);
            p.activation = QuantSpec::tensor(DType::e4m3, kind, rules.per_tensor.scaling);
            p.gradient = QuantSpec::tensor(gradient, kind);
            break;
        case PrecisionMode::blockwise:
            p.weight = QuantSpec::block_128x128(kind);
            p.activation = QuantSpec::block_1x128(kind);
            p.gradient = QuantSpec::block_1x128(kind, gradient);
            break;
        case PrecisionMode::mxfp8:
            p.weight = p.activation = QuantSpec::mx();
            p.gradient = QuantSpec::mx(gradient);
            break;
    }
    if (has_codes(rules.recipe)) {
        if (rules.backward == BackwardFormat::bf16) p.gradient = QuantSpec::bf16();
        if (rules.recipe != PrecisionMode::mxfp8)
            p.weight.rule = p.activation.rule = rules.scale_rule;  // a rollout has no gradient
    }
    return p;
}

PrecisionTable::PrecisionTable(const PrecisionRules& rules, const std::vector<LinearModule>& modules,
                               int64_t layers)
    : rules_(rules) {
    const auto& high = rules.bf16;
    if (high.first_layers + high.last_layers > layers)
        refuse("precision.bf16: first_layers ", high.first_layers, " + last_layers ", high.last_layers,
               " exceed the model's ", layers, " layers");
    std::vector<bool> used(high.modules.size());
    for (const auto& m : modules) {
        PrecisionEntry e{m, linear_precision(rules), name_of(rules.recipe)};
        std::string exception;
        if (m.layer >= 0 && m.layer < high.first_layers)
            exception = cat("first_layers ", high.first_layers);
        else if (m.layer >= layers - high.last_layers)
            exception = cat("last_layers ", high.last_layers);
        for (size_t i = 0; i < used.size(); ++i)
            if (text::glob(high.modules[i], m.name)) {
                used[i] = true;
                if (exception.empty()) exception = "modules " + high.modules[i];
            }
        if (!exception.empty() && e.precision.quantized()) {
            e.precision = LinearPrecision{};
            e.reason = "bf16: " + exception;
        }
        entries_.push_back(std::move(e));
    }
    for (size_t i = 0; i < used.size(); ++i)
        if (!used[i]) {
            std::vector<std::string> names;
            for (const auto& m : modules) names.push_back(m.name);
            std::string near = text::nearest(high.modules[i], names);
            if (near.empty() && !names.empty()) near = names.back();
            refuse("precision.bf16.modules: '", high.modules[i], "' matches no linear module",
                   near.empty() ? "" : "; a name is for example '" + near + "'");
        }
}

const LinearPrecision& PrecisionTable::at(const std::string& module) const {
    auto e = std::find_if(entries_.begin(), entries_.end(),
                          [&](const auto& x) { return x.module.name == module; });
    check(e != entries_.end(), "precision table: no module '", module, "'");
    return e->precision;
}

DType PrecisionTable::cache_type() const {
    return rules_.kv_cache.format == CacheFormat::fp8 ? DType::e4m3 : compute_type();
}

static std::string first_difference(const PrecisionTable& train, const PrecisionTable& rollout) {
    check(train.entries().size() == rollout.entries().size(), "exactness: tables of different models");
    size_t count = 0;
    std::string first;
    for (size_t i = 0; i < train.entries().size(); ++i) {
        const auto &t = train.entries()[i], &r = rollout.entries()[i];
        check(t.module.name == r.module.name, "exactness: tables of different models");
        auto differ = [&](const QuantSpec& a, const QuantSpec& b, const char* role) {
            if (a == b) return false;
            if (first.empty())
                first = cat(t.module.name, " ", role, ": rollout ", describe(b), ", training ", describe(a));
            return true;
        };
        const bool weight = differ(t.precision.weight, r.precision.weight, "weight");
        count += differ(t.precision.activation, r.precision.activation, "activation") || weight;
    }
    return count ? cat(count, " of ", train.entries().size(), " linear modules compute differently (", first,
                       ")")
                 : "";
}

Exactness exactness(const PrecisionTable& train, const PrecisionTable& rollout) {
    std::vector<std::string> reasons;
    auto any = [&](const PrecisionTable& t, auto&& holds) {
        return std::any_of(t.entries().begin(), t.entries().end(),
                           [&](const auto& e) { return e.precision.quantized() && holds(e.precision); });
    };
    if (train.compute_type() != rollout.compute_type())
        reasons.push_back("rollout and training differ in the type of activations");
    if (auto d = first_difference(train, rollout); !d.empty()) reasons.push_back(d);
    auto vllm = [](const LinearPrecision& p) { return p.weight.rule == ScaleRule::vllm; };
    if (any(rollout, vllm)) reasons.push_back("the rollout uses vLLM's scale rule (scale_rule: vllm)");
    for (const auto* t : {&train, &rollout})
        if (any(*t, [](const LinearPrecision& p) {
                return p.activation.whole_tensor() && p.activation.scaling == Scaling::current;
            })) {
            reasons.push_back(
                "per_tensor scaling `current` takes its scale from whatever rows share a batch");
            break;
        }
    auto recorded = [](const LinearPrecision& p) { return p.activation.scaling != Scaling::current; };
    if (any(train, recorded) && any(rollout, recorded) &&
        train.rules().per_tensor != rollout.rules().per_tensor)
        reasons.push_back("the per_tensor settings of rollout and training differ");
    if (train.cache_type() != rollout.cache_type())
        reasons.push_back(cat("the rollout's KV cache is ", fp8rl::name_of(rollout.cache_type()),
                              ", training's ", fp8rl::name_of(train.cache_type())));
    if (train.rules().attention != rollout.rules().attention)
        reasons.push_back("rollout and training differ in the format of attention");
    Exactness e;
    if (!reasons.empty()) e = {false, "not exact, because " + text::join(reasons, "; ")};
    return e;
}

}  // namespace fp8rl
