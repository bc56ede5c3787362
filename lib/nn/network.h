// nn/network: what the modules of one model share. Modules register their parameters, scales and counters
// here in their constructors and keep pointers; nothing moves afterwards.
#pragma once
#include <string>

#include "nn/model.h"
#include "nn/observe.h"

namespace fp8rl {

struct Network {
    Network(Backend& backend, const ModelSpec& spec, const ModelOptions& options)
        : backend(backend),
          spec(spec),
          options(options),
          scales(backend),
          counters(backend),
          kv(backend, spec, options.kv) {}
    Network(const Network&) = delete;
    Network& operator=(const Network&) = delete;

    Backend& backend;
    const ModelSpec spec;
    const ModelOptions options;
    ParamSet params;
    ActivationScales scales;
    Counters counters;
    KvScales kv;
    Tensor rope_table;  // f32 [max_position, D]: cosines, then sines

    DType act() const { return options.act; }
    // What a matrix is stored in where nothing is quantized.
    QuantSpec plain() const { return options.act == DType::f32 ? QuantSpec::f32() : QuantSpec::bf16(); }
    // A norm's gain or a bias.
    Param* vector(const std::string& name, int64_t size, int layer) {
        Param p;
        p.name = name;
        p.kind = Param::Kind::vector;
        p.rows = 1;
        p.cols = size;
        p.layer = layer;
        return &params.add(std::move(p));
    }
};

}  // namespace fp8rl
