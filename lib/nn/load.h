// nn/load: where a model's tensors come from. Checkpoints and HF folders implement WeightSource over their
// files; GGUF has one here. Refused by name: a tensor missing, unknown, of another shape, or not finite.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "nn/spec.h"

namespace fp8rl {

class WeightSource {
  public:
    virtual ~WeightSource() = default;
    virtual std::string where() const = 0;               // file or folder, for messages
    virtual std::vector<std::string> names() const = 0;  // published: "model.layers.0.mlp.up_proj.weight"
    virtual std::vector<int64_t> shape(const std::string& name) const = 0;  // outermost first
    // Rows [first, first + count) of the [rows, cols] reading (a vector is one row) as float; called from
    // many threads at once.
    virtual void read_rows(const std::string& name, int64_t first, int64_t count, float* out) const = 0;
};

// A GGUF file under published names. llama.cpp stores the rows of Q and K interleaved for its form of RoPE;
// they come out in half-split order.
std::unique_ptr<WeightSource> gguf_source(const GgufFile& file, const ModelSpec& spec);

}  // namespace fp8rl
