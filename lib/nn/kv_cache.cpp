// nn/kv_cache: scales, maxima and guard of an FP8 cache, and the memory of rollout's pages.
#include "nn/kv_cache.h"

#include <algorithm>
#include <array>

#include "quant/formats.h"

namespace fp8rl {

KvScales::KvScales(Backend& backend, const ModelSpec& spec, const KvPrecision& precision)
    : backend_(backend), spec_(spec), precision_(precision) {
    check(precision.format == DType::e4m3 || !precision.fp8_attention, "FP8 attention needs an FP8 KV cache");
    formats_.assign(static_cast<size_t>(spec.layers), precision.format);
    k_counts.resize(formats_.size());
    v_counts.resize(formats_.size());
}

void KvScales::reserve(Arena& arena) {
    const std::vector<float> ones(static_cast<size_t>(spec_.layers * spec_.kv_heads), 1.0f);
    for (Tensor* t : {&k_scale, &v_scale, &q_scale}) {
        *t = arena.tensor(DType::f32, {spec_.layers, spec_.kv_heads});
        backend_.upload(*t, ones.data());
    }
    for (Tensor* t : {&k_amax, &v_amax, &q_amax}) {
        *t = arena.tensor(DType::f32, {spec_.layers, spec_.kv_heads});
        backend_.zero(*t);
    }
    counts = arena.tensor(DType::i64, {spec_.layers, 6});
    backend_.zero(counts);
}

void KvScales::read_counts() {
    static_assert(sizeof(QuantCounts) == 3 * sizeof(int64_t));
    std::vector<std::array<QuantCounts, 2>> host(formats_.size());
    backend_.download(host.data(), counts);
    for (size_t l = 0; l < host.size(); ++l) k_counts[l] = host[l][0], v_counts[l] = host[l][1];
}

std::vector<KvFallback> KvScales::guard() {
    std::vector<KvFallback> moved;
    if (precision_.format != DType::e4m3 || precision_.max_saturated <= 0) return moved;
    read_counts();
    auto ruins = [&](const QuantCounts& c) {
        return static_cast<double>(c.saturated) > precision_.max_saturated * static_cast<double>(c.values);
    };
    for (int l = 0; l < static_cast<int>(formats_.size()); ++l) {
        if (format(l) != DType::e4m3) continue;
        const bool k = ruins(k_counts[l]), v = ruins(v_counts[l]);
        if (!k && !v) continue;
        moved.push_back({l, k ? "K" : "V", k ? k_counts[l] : v_counts[l]});
        fall_back(l);
    }
    return moved;
}

void KvScales::recalibrate() {
    if (precision_.format != DType::e4m3) return;
    const size_t n = static_cast<size_t>(spec_.layers * spec_.kv_heads);
    std::vector<float> scale(n), amax(n);
    const std::pair<const char*, std::pair<Tensor, Tensor>> kinds[] = {
        {"K", {k_scale, k_amax}}, {"V", {v_scale, v_amax}}, {"Q", {q_scale, q_amax}}};
    for (const auto& [name, tensors] : kinds) {
        backend_.download(scale.data(), tensors.first);
        backend_.download(amax.data(), tensors.second);
        for (size_t i = 0; i < n; ++i) {
            if (!is_finite(amax[i]))
                refuse("KV cache: ", name, " of layer ", i / spec_.kv_heads, ", KV head ", i % spec_.kv_heads,
                       " is not finite; the weights have diverged");
            const float next = amax[i] * precision_.margin / E4m3::max;
            // A scale that underflowed to 0 would divide by zero: as good as nothing observed.
            if (next > 0) scale[i] = next, calibrated_ = true;
        }
        backend_.upload(tensors.first, scale.data());
        backend_.zero(tensors.second);
    }
    backend_.zero(counts);
}

KvLayer KvScales::layer(int l, void* pages, DType format, bool observe) const {
    KvLayer kv;
    kv.pages = pages;
    kv.format = format;
    kv.kv_heads = static_cast<int>(spec_.kv_heads);
    kv.head_dim = static_cast<int>(spec_.head_dim);
    auto row = [&](Tensor t) { return static_cast<float*>(t.data) + l * spec_.kv_heads; };
    if (format == DType::e4m3) {
        check(calibrated_, "FP8 KV cache of layer ", l, " has no scales: nothing was calibrated");
        kv.k_scale = row(k_scale);
        kv.v_scale = row(v_scale);
        if (observe) {
            kv.k_counts = static_cast<QuantCounts*>(counts.data) + 2 * l;
            kv.v_counts = kv.k_counts + 1;
        }
    }
    if (observe && precision_.format == DType::e4m3) {
        kv.k_amax = row(k_amax);
        kv.v_amax = row(v_amax);
    }
    return kv;
}

std::vector<float> KvScales::state() const {
    std::vector<float> out;
    for (const Tensor& t : {k_scale, v_scale, q_scale, k_amax, v_amax, q_amax}) {
        const size_t at = out.size();
        out.resize(at + static_cast<size_t>(t.size()));
        backend_.download(out.data() + at, t);
    }
    // Counts as three numbers of 22 bits each: a float holds 24 exactly.
    std::vector<uint64_t> host(static_cast<size_t>(counts.size()));
    backend_.download(host.data(), counts);
    for (uint64_t c : host)
        for (int shift : {0, 22, 44}) out.push_back(static_cast<float>((c >> shift) & 0x3fffff));
    for (DType f : formats_) out.push_back(f == precision_.format ? 0.0f : 1.0f);
    out.push_back(calibrated_ ? 1.0f : 0.0f);
    return out;
}

void KvScales::restore(const std::vector<float>& values) {
    const size_t expected = static_cast<size_t>(6 * k_scale.size() + 3 * counts.size()) + formats_.size() + 1;
    if (values.size() != expected)
        refuse("state kv_scales: ", values.size(), " values, this model needs ", expected);
    const float* p = values.data();
    for (const Tensor& t : {k_scale, v_scale, q_scale, k_amax, v_amax, q_amax}) {
        backend_.upload(t, p);
        p += t.size();
    }
    std::vector<uint64_t> host(static_cast<size_t>(counts.size()), 0);
    for (auto& c : host)
        for (int shift : {0, 22, 44}) c |= static_cast<uint64_t>(*p++) << shift;
    backend_.upload(counts, host.data());
    for (auto& f : formats_) f = *p++ == 0 ? precision_.format : DType::bf16;
    calibrated_ = *p != 0;
}

KvCache::KvCache(Backend& backend, const ModelSpec& spec, KvScales& scales, int64_t pages)
    : backend_(backend), spec_(spec), scales_(scales) {
    check(pages > 0, "KV cache without pages");
    bytes_ = static_cast<size_t>(pages) * page_bytes(backend, spec, scales.precision());
    size_t one = 0;
    for (int l = 0; l < static_cast<int>(spec.layers); ++l) {
        formats_.push_back(scales.format(l));
        one += backend.kv_page_bytes(formats_.back(), static_cast<int>(spec.kv_heads),
                                     static_cast<int>(spec.head_dim));
    }
    pages_ = static_cast<int64_t>(bytes_ / one);
}

size_t KvCache::page_bytes(const Backend& backend, const ModelSpec& spec, const KvPrecision& precision) {
    return static_cast<size_t>(spec.layers) * backend.kv_page_bytes(precision.format,
                                                                    static_cast<int>(spec.kv_heads),
                                                                    static_cast<int>(spec.head_dim));
}

void KvCache::reserve(Arena& arena) {
    auto* p = static_cast<char*>(arena.allocate(bytes_));
    layers_.clear();
    for (DType format : formats_) {
        layers_.push_back(p);
        p += static_cast<size_t>(pages_) * backend_.kv_page_bytes(format, static_cast<int>(spec_.kv_heads),
                                                                  static_cast<int>(spec_.head_dim));
    }
}

KvLayer KvCache::layer(int l, bool observe) const {
    check(formats_[l] == scales_.format(l), "KV cache of layer ", l, " was built before its format changed");
    return scales_.layer(l, layers_[l], formats_[l], observe);
}

void KvCache::copy_page(int32_t dst, int32_t src) {
    for (int l = 0; l < static_cast<int>(layers_.size()); ++l)
        backend_.kv_copy_page(layer(l, false), dst, src);
}

}  // namespace fp8rl
