// Claims about precision tables and the exactness verdict. The expected specs are DESIGN section 4's table.
#include "quant/policy.h"

#include "core/error.h"
#include "core/parallel.h"
#include "test.h"

using namespace fp8rl;

static std::string refusal(FunctionRef<void()> f) {
    try {
        f();
    } catch (const Error& e) {
        return e.what();
    }
    return "";
}

static bool has(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* p : parts)
        if (text.find(p) == std::string::npos) return false;
    return true;
}

static std::vector<LinearModule> modules(int64_t layers) {
    std::vector<LinearModule> m;
    for (int64_t l = 0; l < layers; ++l)
        for (const char* n : {"self_attn.q_proj", "self_attn.o_proj", "mlp.up_proj", "mlp.down_proj"})
            m.push_back({"model.layers." + std::to_string(l) + "." + n, l});
    return m;
}

static PrecisionRules rules(PrecisionMode mode) {
    PrecisionRules r;
    r.recipe = mode;
    return r;
}

static PrecisionTable table(const PrecisionRules& r) { return PrecisionTable(r, modules(3), 3); }

TEST_CASE("each recipe is the design's set of specs") {
    auto p = linear_precision(rules(PrecisionMode::blockwise));
    CHECK(describe(p.weight) == "e4m3 128x128 f32");
    CHECK(describe(p.activation) == "e4m3 1x128 f32");
    CHECK(describe(p.gradient) == "e4m3 1x128 f32");
    CHECK(p.backward_quantized());

    auto r = rules(PrecisionMode::blockwise);
    r.pow2_scales = true;
    r.backward = BackwardFormat::bf16;
    p = linear_precision(r);
    CHECK(describe(p.weight) == "e4m3 128x128 pow2");
    CHECK(describe(p.gradient) == "bf16");
    CHECK(!p.backward_quantized());

    r = rules(PrecisionMode::per_tensor);
    r.backward = BackwardFormat::e5m2;
    p = linear_precision(r);
    CHECK(describe(p.weight) == "e4m3 tensor f32 current");
    CHECK(describe(p.activation) == "e4m3 tensor f32 delayed");
    CHECK(describe(p.gradient) == "e5m2 tensor f32 current");
    r.per_tensor.scaling = Scaling::fixed;
    CHECK(describe(linear_precision(r).activation) == "e4m3 tensor f32 static");

    p = linear_precision(rules(PrecisionMode::mxfp8));
    CHECK(describe(p.weight) == "e4m3 1x32 e8m0");
    CHECK(describe(p.activation) == "e4m3 1x32 e8m0");
    CHECK(p.weight.k_block() == 32);

    CHECK(describe(linear_precision(rules(PrecisionMode::bf16)).weight) == "bf16");
    CHECK(describe(linear_precision(rules(PrecisionMode::fp32)).gradient) == "f32");
}

TEST_CASE("first and last layers and patterns stay BF16, each with its reason") {
    auto r = rules(PrecisionMode::blockwise);
    r.bf16.first_layers = 1;
    r.bf16.modules = {"*.2.mlp.down_proj"};
    const auto t = table(r);
    CHECK(!t.at("model.layers.0.mlp.up_proj").quantized());
    CHECK(t.at("model.layers.1.mlp.up_proj").quantized());
    CHECK(!t.at("model.layers.2.mlp.down_proj").quantized());
    CHECK(t.entries().front().reason == "bf16: first_layers 1");
    CHECK(t.entries().back().reason == "bf16: modules *.2.mlp.down_proj");
    CHECK(t.entries()[5].reason == "blockwise");
    r.bf16 = {0, 1, {}};
    CHECK(!table(r).at("model.layers.2.self_attn.q_proj").quantized());
    CHECK(table(r).at("model.layers.1.self_attn.q_proj").quantized());
    CHECK_THROWS_AS(t.at("lm_head"), Error);
}

TEST_CASE("a pattern that matches nothing is refused with a name that would") {
    auto r = rules(PrecisionMode::blockwise);
    r.bf16.modules = {"model.layers.0.mlp.down_prj"};
    CHECK(has(refusal([&] { table(r); }), {"model.layers.0.mlp.down_prj", "model.layers.0.mlp.down_proj'"}));
    r.bf16.modules = {"down_proj"};  // a glob matches the whole name
    CHECK_THROWS_AS(table(r), Error);
    r.bf16 = {2, 2, {}};
    CHECK(has(refusal([&] { table(r); }), {"3 layers"}));
}

TEST_CASE("equal tables are exact in every mode but per_tensor current") {
    for (auto mode : {PrecisionMode::bf16, PrecisionMode::fp32, PrecisionMode::blockwise,
                      PrecisionMode::mxfp8, PrecisionMode::per_tensor}) {
        auto r = rules(mode);
        CHECK(exactness(table(r), table(r)).exact);
        if (mode != PrecisionMode::fp32) {
            r.kv_cache.format = CacheFormat::fp8;
            r.attention = CacheFormat::fp8;
        }
        CHECK(exactness(table(r), table(r)).exact);
    }
    auto r = rules(PrecisionMode::per_tensor);
    r.per_tensor.scaling = Scaling::fixed;
    CHECK(exactness(table(r), table(r)).exact);
    r.per_tensor.scaling = Scaling::current;
    const auto e = exactness(table(r), table(r));
    CHECK(!e.exact);
    CHECK(has(e.reason, {"not exact, because", "current"}));
    r.bf16.first_layers = 3;  // nothing is left that would be scaled
    CHECK(exactness(table(r), table(r)).exact);
}

TEST_CASE("a differing rollout is not exact, and the reason names the difference") {
    const auto bf16 = table(rules(PrecisionMode::bf16));
    const auto block = table(rules(PrecisionMode::blockwise));
    CHECK(has(exactness(bf16, block).reason,
              {"12 of 12 linear modules", "rollout e4m3 128x128 f32, training bf16"}));
    auto r = rules(PrecisionMode::blockwise);
    r.scale_rule = ScaleRule::vllm;
    CHECK(has(exactness(block, table(r)).reason, {"vLLM"}));
    r = rules(PrecisionMode::blockwise);
    r.kv_cache.format = CacheFormat::fp8;
    CHECK(has(exactness(block, table(r)).reason, {"KV cache is e4m3, training's bf16"}));
    r.attention = CacheFormat::fp8;
    CHECK(has(exactness(block, table(r)).reason, {"attention"}));
    r = rules(PrecisionMode::blockwise);
    r.backward = BackwardFormat::bf16;  // the forward passes are what must agree
    CHECK(exactness(block, table(r)).exact);
    r = rules(PrecisionMode::per_tensor);
    auto other = r;
    other.per_tensor.margin = 1;
    CHECK(has(exactness(table(r), table(other)).reason, {"per_tensor settings"}));
}
