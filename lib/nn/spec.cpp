// nn/spec: HF config.json and GGUF metadata become a ModelSpec, and back. Every field that changes the
// arithmetic is read or refused by name; nothing is guessed.
#include "nn/spec.h"

#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "io/gguf.h"
#include "io/json.h"

namespace fp8rl {

int64_t ModelSpec::parameters() const {
    const int64_t q = heads * head_dim, kv = kv_heads * head_dim;
    int64_t block = hidden * (q + 2 * kv) + q * hidden + 3 * hidden * ffn + 2 * hidden;
    if (attention_bias) block += q + 2 * kv;
    if (o_bias) block += hidden;
    if (qk_norm) block += 2 * head_dim;
    return layers * block + vocab * hidden * (tied ? 1 : 2) + hidden;
}

void ModelSpec::validate() const {
    const std::pair<const char*, int64_t> sizes[] = {{"vocab_size", vocab},
                                                     {"hidden_size", hidden},
                                                     {"num_hidden_layers", layers},
                                                     {"num_attention_heads", heads},
                                                     {"num_key_value_heads", kv_heads},
                                                     {"head_dim", head_dim},
                                                     {"intermediate_size", ffn},
                                                     {"max_position_embeddings", max_position}};
    for (const auto& [name, value] : sizes)
        if (value < 1 || value > (int64_t{1} << 31) - 1)
            refuse("model: ", name, " is ", value, "; at least 1");
    if (heads % kv_heads)
        refuse("model: num_attention_heads ", heads, " is not a multiple of num_key_value_heads ", kv_heads);
    if (head_dim % 2) refuse("model: head_dim ", head_dim, " is odd; RoPE turns pairs");
    if (!(rms_eps > 0) || rms_eps > 1) refuse("model: rms_norm_eps is ", rms_eps, "; between 0 and 1");
    if (!(rope.theta > 1) || !std::isfinite(rope.theta)) refuse("model: rope_theta is ", rope.theta);
    if (!(rope.factor > 0) || !std::isfinite(rope.factor)) refuse("model: rope factor is ", rope.factor);
    if (rope.kind == RopeSpec::Kind::llama3 && !(rope.high_freq_factor > rope.low_freq_factor))
        refuse("model: rope high_freq_factor must be above low_freq_factor");
}

// ---- HF config.json

static const std::vector<std::string> architectures = {"llama", "qwen2", "qwen3"};

static RopeSpec rope_from_config(const Json& config, const std::string& source) {
    RopeSpec r;
    const Json* block = nullptr;
    for (const char* key : {"rope_parameters", "rope_scaling"})
        if (!block && config.has(key)) block = &config.at(key);
    r.theta = config.number_or("rope_theta", block ? block->number_or("rope_theta", 10000.0) : 10000.0);
    if (!block) return r;
    if (!block->has("rope_type") && !block->has("type"))
        refuse(source, ": the RoPE scaling has neither rope_type nor type");
    const std::string type = block->at(block->has("rope_type") ? "rope_type" : "type").as_string();
    auto number = [&](const char* key) {
        if (!block->has(key)) refuse(source, ": RoPE type ", type, " needs ", key);
        return block->at(key).as_number();
    };
    if (type == "default") return r;
    r.factor = number("factor");
    if (type == "linear") {
        r.kind = RopeSpec::Kind::linear;
    } else if (type == "llama3") {
        r.kind = RopeSpec::Kind::llama3;
        r.low_freq_factor = number("low_freq_factor");
        r.high_freq_factor = number("high_freq_factor");
        r.original_max_position = static_cast<int64_t>(number("original_max_position_embeddings"));
    } else if (type == "yarn") {
        r.kind = RopeSpec::Kind::yarn;
        r.original_max_position = block->integer_or("original_max_position_embeddings", 0);
        r.beta_fast = block->number_or("beta_fast", 32);
        r.beta_slow = block->number_or("beta_slow", 1);
        r.attention_factor = block->number_or("attention_factor", 0);
        for (const char* key : {"mscale", "mscale_all_dim"})
            if (block->has(key)) refuse(source, ": RoPE yarn: ", key, " is not supported");
        if (!block->bool_or("truncate", true))
            refuse(source, ": RoPE yarn: truncate: false is not supported");
    } else {
        refuse(source, ": RoPE type ", type, " is not known; default, linear, llama3, yarn");
    }
    return r;
}

ModelSpec spec_from_config(const Json& config, const std::string& source) {
    ModelSpec s;
    s.architecture = config.at("model_type").as_string();
    bool known = false;
    for (const auto& a : architectures) known |= a == s.architecture;
    if (!known)
        refuse(source, ": model_type ", s.architecture, " is not supported; ",
               text::join(architectures, ", "));
    s.vocab = config.at("vocab_size").as_integer();
    s.hidden = config.at("hidden_size").as_integer();
    s.layers = config.at("num_hidden_layers").as_integer();
    s.heads = config.at("num_attention_heads").as_integer();
    s.kv_heads = config.integer_or("num_key_value_heads", s.heads);
    if (s.heads < 1) refuse(source, ": num_attention_heads is ", s.heads);
    s.head_dim = config.integer_or("head_dim", s.architecture == "qwen3" ? 128 : s.hidden / s.heads);
    s.ffn = config.at("intermediate_size").as_integer();
    s.rms_eps = config.number_or("rms_norm_eps", 1e-6);
    s.max_position = config.integer_or("max_position_embeddings", 2048);
    s.tied = config.bool_or("tie_word_embeddings", false);
    s.qk_norm = config.bool_or("qk_norm", s.architecture == "qwen3");
    s.attention_bias = config.bool_or("attention_bias", s.architecture == "qwen2");
    s.o_bias = config.bool_or("attention_o_bias", s.attention_bias && s.architecture != "qwen2");
    s.rope = rope_from_config(config, source);
    const std::string activation = config.string_or("hidden_act", "silu");
    if (activation != "silu") refuse(source, ": hidden_act ", activation, " is not supported; silu");
    if (config.bool_or("mlp_bias", false)) refuse(source, ": mlp_bias is not supported");
    if (config.bool_or("use_sliding_window", false)) refuse(source, ": sliding windows are not supported");
    if (config.number_or("partial_rotary_factor", 1.0) != 1.0)
        refuse(source, ": partial_rotary_factor is not supported");
    if (config.has("quantization_config")) refuse(source, ": quantized checkpoints are not supported");
    s.validate();
    return s;
}

static Json rope_block(const RopeSpec& r) {
    Json b = Json::object();
    switch (r.kind) {
        case RopeSpec::Kind::standard: return {};
        case RopeSpec::Kind::linear: b.set("rope_type", "linear"); break;
        case RopeSpec::Kind::llama3:
            b.set("rope_type", "llama3");
            b.set("low_freq_factor", r.low_freq_factor);
            b.set("high_freq_factor", r.high_freq_factor);
            break;
        case RopeSpec::Kind::yarn:
            b.set("rope_type", "yarn");
            b.set("beta_fast", r.beta_fast);
            b.set("beta_slow", r.beta_slow);
            if (r.attention_factor > 0) b.set("attention_factor", r.attention_factor);
            break;
    }
    b.set("factor", r.factor);
    if (r.original_max_position) b.set("original_max_position_embeddings", r.original_max_position);
    return b;
}

std::string config_text(const ModelSpec& s) {
    // The architecture that Transformers implements these features under.
    const bool qwen2 = s.attention_bias && !s.o_bias && !s.qk_norm;
    const std::string type = s.qk_norm ? "qwen3" : qwen2 ? "qwen2" : "llama";
    Json c = Json::object();
    Json classes = Json::array();
    classes.push(type == "qwen3" ? "Qwen3ForCausalLM" : qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM");
    c.set("architectures", std::move(classes));
    c.set("model_type", type);
    c.set("vocab_size", s.vocab);
    c.set("hidden_size", s.hidden);
    c.set("intermediate_size", s.ffn);
    c.set("num_hidden_layers", s.layers);
    c.set("num_attention_heads", s.heads);
    c.set("num_key_value_heads", s.kv_heads);
    c.set("head_dim", s.head_dim);
    c.set("hidden_act", "silu");
    c.set("max_position_embeddings", s.max_position);
    c.set("rms_norm_eps", s.rms_eps);
    c.set("rope_theta", s.rope.theta);
    c.set("rope_scaling", rope_block(s.rope));
    c.set("tie_word_embeddings", s.tied);
    c.set("attention_bias", s.attention_bias);
    // Ours: Transformers has no name for biases on q, k, v alone beside QK-norm, nor for one on o alone.
    if (!qwen2 && s.o_bias != s.attention_bias) c.set("attention_o_bias", s.o_bias);
    c.set("torch_dtype", "bfloat16");
    return c.dump(2) + "\n";
}

// ---- GGUF

ModelSpec spec_from_gguf(const GgufFile& file) {
    const std::string& source = file.path();
    ModelSpec s;
    s.architecture = file.string("general.architecture");
    if (s.architecture != "llama")
        refuse(source, ": architecture ", s.architecture, " is not supported in GGUF; llama");
    if (file.integer_or("llama.expert_count", 0) > 0)
        refuse(source, ": mixtures of experts are not supported");
    const GgufTensor& table = file.tensor("token_embd.weight");
    s.hidden = file.integer("llama.embedding_length");
    s.vocab = file.integer_or("llama.vocab_size", table.rows());
    s.layers = file.integer("llama.block_count");
    s.heads = file.integer("llama.attention.head_count");
    s.kv_heads = file.integer_or("llama.attention.head_count_kv", s.heads);
    if (s.heads < 1) refuse(source, ": llama.attention.head_count is ", s.heads);
    s.head_dim = file.integer_or("llama.attention.key_length", s.hidden / s.heads);
    if (file.integer_or("llama.attention.value_length", s.head_dim) != s.head_dim)
        refuse(source, ": llama.attention.value_length differs from the key length ", s.head_dim);
    if (file.integer_or("llama.rope.dimension_count", s.head_dim) != s.head_dim)
        refuse(source, ": llama.rope.dimension_count differs from the head size ", s.head_dim);
    s.ffn = file.integer("llama.feed_forward_length");
    s.rms_eps = file.number("llama.attention.layer_norm_rms_epsilon");
    // GGUF stores it as a 32-bit float; a checkpoint's config should say 1e-05 again.
    long long scaled = std::llround(s.rms_eps * 1e8);
    if (scaled > 0 && static_cast<float>(static_cast<double>(scaled) / 1e8) == static_cast<float>(s.rms_eps))
        s.rms_eps = static_cast<double>(scaled) / 1e8;
    s.max_position = file.integer("llama.context_length");
    s.rope.theta = file.number_or("llama.rope.freq_base", 10000.0);
    const std::string scaling = file.string_or("llama.rope.scaling.type", "none");
    if (scaling == "linear") {
        s.rope.kind = RopeSpec::Kind::linear;
        s.rope.factor = file.number("llama.rope.scaling.factor");
    } else if (scaling == "yarn") {
        s.rope.kind = RopeSpec::Kind::yarn;
        s.rope.factor = file.number("llama.rope.scaling.factor");
        s.rope.original_max_position = file.integer("llama.rope.scaling.original_context_length");
    } else if (scaling != "none") {
        refuse(source, ": llama.rope.scaling.type ", scaling, " is not known; none, linear, yarn");
    }
    if (file.find("rope_freqs.weight"))
        refuse(source, ": tensor rope_freqs.weight (llama3 RoPE scaling) is not supported in GGUF");
    s.tied = !file.find("output.weight");
    s.attention_bias = file.find("blk.0.attn_q.bias") != nullptr;
    s.o_bias = file.find("blk.0.attn_output.bias") != nullptr;
    s.validate();
    return s;
}

}  // namespace fp8rl
