// Reading model configs: field case f09, both directions, refusals by name.
#include "nn/spec.h"

#include "core/error.h"
#include "io/json.h"
#include "nn/elementary.h"
#include "test.h"

namespace fp8rl {
namespace {

nlohmann::json full_config(const nlohmann::json& partial) {
    nlohmann::json c = {{"model_type", "llama"},    {"vocab_size", 100},       {"num_hidden_layers", 2},
                        {"num_key_value_heads", 4}, {"intermediate_size", 64}, {"rms_norm_eps", 1e-5}};
    c.update(partial);
    return c;
}

ModelSpec spec_of(const nlohmann::json& c) {
    return spec_from_config(Json::parse(c.dump(), "config.json"), "config.json");
}

std::string refusal(const nlohmann::json& c) {
    try {
        spec_of(c);
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        return e.what();
    }
    return "";
}

TEST_CASE(
    "f09: every spelling of RoPE scaling gives the frequencies of Transformers, unknown ones are refused") {
    const auto f09 = test::read_json("f09_rope_variants.json");
    for (const auto& entry : f09["configs"]) {
        const std::string name = entry["name"];
        INFO(name);
        const auto config = full_config(entry["config"]);
        if (entry.contains("error")) {
            const std::string message = refusal(config);
            CHECK(message.find(name == "unknown_type" ? "spiral" : "low_freq_factor") != std::string::npos);
            continue;
        }
        const ModelSpec s = spec_of(config);
        CHECK(s.head_dim == 16);
        const auto f = inverse_frequencies(s.rope, s.head_dim, s.max_position);
        REQUIRE(f.size() == entry["inv_freq"].size());
        for (size_t i = 0; i < f.size(); ++i)
            CHECK(f[i] == Approx(entry["inv_freq"][i].get<double>()).epsilon(f09["rel_tol"].get<double>()));
        CHECK(attention_factor(s.rope) == Approx(entry["attention_factor"].get<double>()).epsilon(2e-6));
    }
}

TEST_CASE("A spec survives its config text, whatever its features") {
    ModelSpec s;
    s.vocab = 264, s.hidden = 96, s.layers = 3, s.heads = 6, s.kv_heads = 2, s.head_dim = 32, s.ffn = 160;
    s.rms_eps = 1e-6;
    s.max_position = 4096;
    for (int features = 0; features < 16; ++features) {
        s.tied = features & 1, s.qk_norm = features & 2, s.attention_bias = features & 4,
        s.o_bias = features & 8;
        s.rope = {};
        s.rope.kind = static_cast<RopeSpec::Kind>(features % 4);
        if (s.rope.kind != RopeSpec::Kind::standard) s.rope.factor = 4;
        if (features % 4 >= 2) s.rope.original_max_position = 1024;
        const ModelSpec r = spec_from_config(Json::parse(config_text(s), "config.json"), "config.json");
        INFO(config_text(s));
        CHECK(config_text(r) == config_text(s));
        CHECK(r.tied == s.tied);
        CHECK(r.qk_norm == s.qk_norm);
        CHECK(r.attention_bias == s.attention_bias);
        CHECK(r.o_bias == s.o_bias);
        CHECK(r.rope.kind == s.rope.kind);
        CHECK(r.rope.factor == s.rope.factor);
        CHECK(r.parameters() == s.parameters());
    }
}

TEST_CASE("The parameter count of SmolLM2-135M is 134,515,008") {
    ModelSpec s;
    s.vocab = 49152, s.hidden = 576, s.layers = 30, s.heads = 9, s.kv_heads = 3, s.head_dim = 64,
    s.ffn = 1536;
    CHECK(s.parameters() == 134515008);
}

TEST_CASE("What this model cannot compute is refused by name") {
    const nlohmann::json base = full_config({{"hidden_size", 96}, {"num_attention_heads", 8}});
    auto with = [&](nlohmann::json patch) {
        auto c = base;
        c.update(patch);
        return refusal(c);
    };
    auto names = [](const std::string& message, const char* word) {
        INFO(message);
        CHECK(message.find(word) != std::string::npos);
    };
    names(with({{"model_type", "mamba"}}), "mamba");
    names(with({{"hidden_act", "gelu"}}), "gelu");
    names(with({{"mlp_bias", true}}), "mlp_bias");
    names(with({{"num_key_value_heads", 3}}), "num_key_value_heads");
    names(with({{"head_dim", 7}}), "head_dim");
    names(with({{"num_hidden_layers", 0}}), "num_hidden_layers");
    names(with({{"vocab_size", nullptr}}), "vocab_size");
    names(with({{"quantization_config", {{"bits", 8}}}}), "quantized");
    names(with({{"rope_scaling", {{"factor", 2.0}}}}), "rope_type");
    CHECK(refusal(base) == "");
}

TEST_CASE("Sine, cosine and logarithm agree with the C library to 1e-15") {
    for (int i = 0; i < 20000; ++i) {
        const double x = (i - 9000) * 0.7310585 + 1e-3 * i;
        const auto [s, c] = sin_cos(x);
        CHECK(std::abs(s - std::sin(x)) < 1e-15);
        CHECK(std::abs(c - std::cos(x)) < 1e-15);
        const double u = (i + 1) * 5e-5;
        CHECK(std::abs(natural_log(u) - std::log(u)) <= 1e-15 * std::max(1.0, std::abs(std::log(u))));
    }
    CHECK(natural_log(1.0) == 0.0);
    const auto [s, c] = sin_cos(131071.0);
    CHECK(std::abs(s - std::sin(131071.0)) < 1e-14);
    CHECK(std::abs(c - std::cos(131071.0)) < 1e-14);
}

}  // namespace
}  // namespace fp8rl
