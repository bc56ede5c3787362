// Loading from GGUF and from named tensors: names, row order of Q and K, and what is refused.
#include "io/gguf.h"
#include "tiny.h"

namespace fp8rl {
namespace {

using namespace test;

// Writes a GGUF file of F32 tensors, as its specification says.
class GgufWriter {
  public:
    void integer(const std::string& key, uint32_t v) { put_key(key, 4), raw(meta_, v), ++keys_; }
    void number(const std::string& key, float v) { put_key(key, 6), raw(meta_, v), ++keys_; }
    void string(const std::string& key, const std::string& v) { put_key(key, 8), put(meta_, v), ++keys_; }
    // Shape outermost first.
    void tensor(const std::string& name, const std::vector<int64_t>& shape,
                const std::vector<float>& values) {
        put(infos_, name);
        raw(infos_, static_cast<uint32_t>(shape.size()));
        for (size_t i = shape.size(); i-- > 0;) raw(infos_, static_cast<uint64_t>(shape[i]));
        raw(infos_, uint32_t{0});
        data_.resize((data_.size() + 31) / 32 * 32);
        raw(infos_, static_cast<uint64_t>(data_.size()));
        data_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
        ++tensors_;
    }
    GgufFile file() const {
        std::string s = "GGUF";
        raw(s, uint32_t{3});
        raw(s, tensors_);
        raw(s, keys_);
        s += meta_;
        s += infos_;
        s.resize((s.size() + 31) / 32 * 32);
        s += data_;
        return GgufFile::from_memory(s, "tiny.gguf");
    }

  private:
    template <class T>
    static void raw(std::string& s, T v) {
        s.append(reinterpret_cast<const char*>(&v), sizeof v);
    }
    static void put(std::string& s, const std::string& v) {
        raw(s, static_cast<uint64_t>(v.size()));
        s += v;
    }
    void put_key(const std::string& key, uint32_t kind) {
        put(meta_, key);
        raw(meta_, kind);
    }
    std::string meta_, infos_, data_;
    uint64_t keys_ = 0, tensors_ = 0;
};

// hidden 8, 1 layer, 2 heads of 4, 1 KV head. Element values tell tensor, row and column.
struct Sample {
    GgufWriter writer;
    std::map<std::string, float> base;  // of each tensor

    explicit Sample(const std::string& leave_out = "", const std::string& architecture = "llama") {
        writer.string("general.architecture", architecture);
        writer.integer("llama.embedding_length", 8);
        writer.integer("llama.block_count", 1);
        writer.integer("llama.attention.head_count", 2);
        writer.integer("llama.attention.head_count_kv", 1);
        writer.integer("llama.feed_forward_length", 12);
        writer.integer("llama.context_length", 64);
        writer.integer("llama.rope.dimension_count", 4);
        writer.number("llama.attention.layer_norm_rms_epsilon", 1e-5f);
        writer.number("llama.rope.freq_base", 1e5f);
        const std::vector<std::pair<std::string, std::vector<int64_t>>> shapes = {
            {"token_embd.weight", {16, 8}},   {"blk.0.attn_norm.weight", {8}},
            {"blk.0.attn_q.weight", {8, 8}},  {"blk.0.attn_k.weight", {4, 8}},
            {"blk.0.attn_v.weight", {4, 8}},  {"blk.0.attn_output.weight", {8, 8}},
            {"blk.0.ffn_norm.weight", {8}},   {"blk.0.ffn_gate.weight", {12, 8}},
            {"blk.0.ffn_up.weight", {12, 8}}, {"blk.0.ffn_down.weight", {8, 12}},
            {"output_norm.weight", {8}}};
        float next = 0;
        for (const auto& [name, shape] : shapes) {
            next += 1000;
            base[name] = next;
            if (name != leave_out) add(name, shape, next);
        }
    }
    void add(const std::string& name, const std::vector<int64_t>& shape, float first) {
        int64_t n = 1;
        for (int64_t d : shape) n *= d;
        std::vector<float> v;
        for (int64_t i = 0; i < n; ++i) v.push_back(first + static_cast<float>(i));
        writer.tensor(name, shape, v);
    }
};

struct Loaded {
    GgufFile file;
    ModelSpec spec;
    Memory memory{size_t{4} << 20};
    Model model;

    explicit Loaded(const GgufWriter& w)
        : file(w.file()),
          spec(spec_from_gguf(file)),
          model(device(), spec, options_of(spec, rules_of(PrecisionMode::bf16), false)) {
        model.reserve(memory.arena);
        model.load(file);
    }
    std::vector<float> values(const std::string& name) { return download(model.params().find(name)->master); }
};

std::string refusal(const GgufWriter& w) {
    try {
        Loaded loaded(w);
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        return e.what();
    }
    return "";
}

TEST_CASE("A GGUF file gives the spec and every tensor under its published name") {
    Sample sample;
    Loaded loaded(sample.writer);
    CHECK(loaded.spec.head_dim == 4);
    CHECK(loaded.spec.vocab == 16);
    CHECK(loaded.spec.tied);
    CHECK(loaded.spec.rope.theta == 1e5);
    CHECK(loaded.spec.rms_eps == 1e-5);
    CHECK(loaded.model.params().elements() == loaded.spec.parameters());
    const auto down = loaded.values("model.layers.0.mlp.down_proj.weight");
    CHECK(down[0] == sample.base["blk.0.ffn_down.weight"]);
    CHECK(down[95] == sample.base["blk.0.ffn_down.weight"] + 95);
    CHECK(loaded.values("model.norm.weight")[7] == sample.base["output_norm.weight"] + 7);
    CHECK(loaded.values("model.layers.0.self_attn.o_proj.weight")[9] ==
          sample.base["blk.0.attn_output.weight"] + 9);
}

TEST_CASE("Rows of Q and K come out of their interleaved order, those of V stay") {
    Sample sample;
    Loaded loaded(sample.writer);
    // llama.cpp's converter: w.reshape(heads, 2, d/2, c).swapaxes(1, 2). Head of 4: file rows 0 1 2 3 are
    // half-split rows 0 2 1 3.
    const int order[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    const auto q = loaded.values("model.layers.0.self_attn.q_proj.weight");
    for (int row = 0; row < 8; ++row)
        CHECK(q[row * 8] == sample.base["blk.0.attn_q.weight"] + order[row] * 8);
    const auto k = loaded.values("model.layers.0.self_attn.k_proj.weight");
    for (int row = 0; row < 4; ++row)
        CHECK(k[row * 8 + 3] == sample.base["blk.0.attn_k.weight"] + order[row] * 8 + 3);
    const auto v = loaded.values("model.layers.0.self_attn.v_proj.weight");
    for (int row = 0; row < 4; ++row) CHECK(v[row * 8] == sample.base["blk.0.attn_v.weight"] + row * 8);
}

TEST_CASE("An output matrix unties the head, biases are found, and bias elements of Q follow their rows") {
    Sample sample;
    sample.add("output.weight", {16, 8}, 50000);
    sample.add("blk.0.attn_q.bias", {8}, 60000);
    sample.add("blk.0.attn_k.bias", {4}, 61000);
    sample.add("blk.0.attn_v.bias", {4}, 62000);
    Loaded loaded(sample.writer);
    CHECK_FALSE(loaded.spec.tied);
    CHECK(loaded.spec.attention_bias);
    CHECK_FALSE(loaded.spec.o_bias);
    CHECK(loaded.values("lm_head.weight")[5] == 50005);
    CHECK(&loaded.model.head_param() != &loaded.model.embedding());
    CHECK(loaded.values("model.layers.0.self_attn.q_proj.bias")[1] == 60002);
    CHECK(loaded.values("model.layers.0.self_attn.v_proj.bias")[1] == 62001);
}

TEST_CASE("Missing, unknown, misshapen and non-finite tensors are refused by name") {
    auto names = [](const std::string& message, const char* word) {
        INFO(message);
        CHECK(message.find("tiny.gguf") != std::string::npos);
        CHECK(message.find(word) != std::string::npos);
    };
    names(refusal(Sample("blk.0.ffn_up.weight").writer), "model.layers.0.mlp.up_proj.weight is missing");
    Sample extra;
    extra.add("blk.0.attn_sinks.weight", {2}, 1);
    names(refusal(extra.writer), "blk.0.attn_sinks.weight");
    Sample odd("blk.0.ffn_up.weight");
    odd.add("blk.0.ffn_up.weight", {11, 8}, 1);
    names(refusal(odd.writer), "[11, 8]");
    Sample nan("output_norm.weight");
    nan.writer.tensor("output_norm.weight", {8}, {1, 1, 1, NAN, 1, 1, 1, 1});
    names(refusal(nan.writer), "model.norm.weight");
    Sample frequencies;
    frequencies.add("rope_freqs.weight", {2}, 1);
    names(refusal(frequencies.writer), "rope_freqs.weight");
    names(refusal(Sample("", "mamba").writer), "mamba");
}

}  // namespace
}  // namespace fp8rl
