// nn/spec: the shape of a model as data. From an HF config, GGUF metadata, or a recipe's `init`; unknown
// architectures and RoPE types are refused by name, a missing field is refused by name.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace fp8rl {

class Json;
class GgufFile;

// Rotary position embedding and its scaling (field case f09).
struct RopeSpec {
    enum class Kind { standard, linear, llama3, yarn } kind = Kind::standard;
    double theta = 10000;
    double factor = 1;
    double low_freq_factor = 1, high_freq_factor = 4;  // llama3
    int64_t original_max_position = 0;                 // llama3, yarn
    double beta_fast = 32, beta_slow = 1;              // yarn
    double attention_factor = 0;                       // yarn; 0: 0.1 ln(factor) + 1
};

// A Llama-family dense decoder: RMSNorm, grouped-query attention, SwiGLU, RoPE in half-split form.
struct ModelSpec {
    std::string architecture = "llama";
    int64_t vocab = 0, hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0;
    double rms_eps = 1e-5;
    RopeSpec rope;
    bool tied = true;             // the head is the embedding table
    bool qk_norm = false;         // RMSNorm on each head of Q and K before RoPE
    bool attention_bias = false;  // q, k, v (and o when the checkpoint has it)
    bool o_bias = false;
    int64_t max_position = 2048;

    int64_t parameters() const;
    void validate() const;  // refuses impossible sizes by name
};

ModelSpec spec_from_config(const Json& config, const std::string& source);
ModelSpec spec_from_gguf(const GgufFile& file);
// HF config.json text of the spec, for checkpoints and export.
std::string config_text(const ModelSpec& spec);

std::vector<double> inverse_frequencies(const RopeSpec& rope, int64_t head_dim,
                                        int64_t max_position);  // [head_dim / 2]
double attention_factor(const RopeSpec& rope);

}  // namespace fp8rl
