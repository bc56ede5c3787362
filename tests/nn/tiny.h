// Tiny models on the CPU backend with their own memory, and what tests of the network ask of them.
#pragma once
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/rng.h"
#include "cpu/cpu_backend.h"
#include "nn/load.h"
#include "nn/model.h"
#include "nn/saved.h"
#include "quant/formats.h"
#include "test.h"

namespace fp8rl::test {

inline ModelSpec tiny_spec() {
    ModelSpec s;
    s.vocab = 64;
    s.hidden = 32;
    s.layers = 2;
    s.heads = 4;
    s.kv_heads = 2;
    s.head_dim = 8;
    s.ffn = 48;
    s.max_position = 1024;
    return s;
}

inline PrecisionRules rules_of(PrecisionMode mode) {
    PrecisionRules r;
    r.recipe = mode;
    return r;
}

inline ModelOptions options_of(const ModelSpec& spec, const PrecisionRules& rules, bool train = true) {
    std::vector<LinearModule> modules;
    for (const auto& m : Model::linear_modules(spec)) modules.push_back({m.name, m.layer});
    ModelOptions o;
    o.precision = PrecisionTable(rules, modules, spec.layers);
    o.rollout_precision = o.precision;
    o.act = o.precision.compute_type();
    o.kv.format = o.precision.cache_type();
    o.kv.fp8_attention = rules.attention == CacheFormat::fp8;
    o.kv.margin = static_cast<float>(rules.kv_cache.margin);
    o.train = train;
    return o;
}

inline Backend& device() {
    static std::unique_ptr<Backend> backend = make_cpu_backend();
    return *backend;
}

// Memory of a backend, given back at the end.
class Memory {
  public:
    explicit Memory(size_t bytes, Backend& backend = device())
        : backend_(backend), data_(backend.allocate(bytes)), arena("test", data_, bytes) {}
    ~Memory() { backend_.release(data_); }
    Memory(const Memory&) = delete;

  private:
    Backend& backend_;
    void* data_;

  public:
    Arena arena;
};

inline std::vector<float> download(Tensor t) {
    std::vector<float> out(static_cast<size_t>(t.size()));
    if (t.dtype == DType::f32) {
        device().download(out.data(), t);
        return out;
    }
    std::vector<bf16> raw(out.size());
    device().download(raw.data(), t);
    for (size_t i = 0; i < out.size(); ++i) out[i] = to_float(raw[i]);
    return out;
}

inline Tensor upload(Arena& arena, DType type, std::initializer_list<int64_t> dims,
                     const std::vector<float>& x) {
    Tensor t = arena.tensor(type, dims);
    REQUIRE(t.size() == static_cast<int64_t>(x.size()));
    if (type == DType::f32) {
        device().upload(t, x.data());
    } else {
        std::vector<bf16> raw;
        for (float v : x) raw.push_back(to_bf16(v));
        device().upload(t, raw.data());
    }
    return t;
}

inline std::vector<float> normal(size_t n, uint32_t stream, float scale = 1) {
    Random r(7, Stream::test, stream);
    std::vector<float> x(n);
    for (float& v : x) v = scale * r.normal();
    return x;
}

inline std::vector<int32_t> tokens(int64_t n, uint32_t stream, int64_t vocab = 64) {
    Random r(11, Stream::test, stream);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>(r.integer(0, vocab - 1)));
    return ids;
}

inline double norm(const std::vector<float>& x) {
    double s = 0;
    for (float v : x) s += static_cast<double>(v) * v;
    return std::sqrt(s);
}

inline double distance(const std::vector<float>& x, const std::vector<float>& y) {
    REQUIRE(x.size() == y.size());
    double s = 0;
    for (size_t i = 0; i < x.size(); ++i) s += std::pow(static_cast<double>(x[i]) - y[i], 2);
    return std::sqrt(s);
}

// Bits, so that NaN and signed zeros count.
inline bool same_bits(const std::vector<float>& x, const std::vector<float>& y) {
    return x.size() == y.size() &&
           (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0);
}

// A model with its arenas.
struct Tiny {
    ModelSpec spec;
    Memory weights{size_t{24} << 20}, phase{size_t{48} << 20}, scratch{size_t{48} << 20};
    Model model;

    Tiny(const ModelSpec& s, const ModelOptions& o, Backend& backend = device())
        : spec(s), model(backend, s, o) {
        model.reserve(weights.arena);
        model.initialize(3, 0.1);
        model.prepare();
    }
    Tiny(const ModelSpec& s, const PrecisionRules& rules) : Tiny(s, options_of(s, rules)) {}

    Pass pass(PackedBatch& batch) {
        return {model.backend(), scratch.arena, batch.ids, batch.positions, batch.sequences()};
    }
    // Observes the sequences as the first pass of a run, and freezes scales from it.
    void calibrate(PackedBatch& batch) {
        auto scope = scratch.arena.scope();
        Pass p = pass(batch);
        p.observe = p.calibrate = true;
        model.forward(p);
        model.begin_step();
    }
    std::vector<float> hidden(PackedBatch& batch) {
        auto scope = scratch.arena.scope();
        Pass p = pass(batch);
        return download(model.forward(p));
    }
    // Gradients of sum(dhidden * hidden).
    void gradients(PackedBatch& batch, const std::vector<float>& dhidden, bool observe = false) {
        auto scope = scratch.arena.scope();
        auto kept = phase.arena.scope();
        Saved saved(phase.arena);
        Pass p = pass(batch);
        p.saved = &saved;
        p.observe = observe;
        model.zero_grad();
        model.forward(p);
        Tensor d = upload(scratch.arena, model.options().act, {batch.rows(), spec.hidden}, dhidden);
        model.backward(p, d);
    }
    std::vector<std::vector<float>> all_gradients() {
        std::vector<std::vector<float>> out;
        model.params().visit([&](Param& p) { out.push_back(download(p.grad)); });
        return out;
    }
};

}  // namespace fp8rl::test
