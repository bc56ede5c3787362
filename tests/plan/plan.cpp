// Claims about the plan: what it refuses at the door, what it says about exactness, and that its bytes and
// FLOPs are those of formulas written here by hand. That a run uses exactly these bytes is tested with whole
// runs (tests/rl).
#include "plan/plan.h"

#include "cpu/cpu_backend.h"
#include "recipe/load.h"
#include "test.h"

using namespace fp8rl;

namespace {

const char* const base = R"(name: planned
model: {init: {vocab_size: 512, hidden: 64, layers: 2, heads: 4, kv_heads: 2, ffn: 128, max_position: 128}}
precision: {recipe: blockwise}
task: {name: sort}
rollout: {prompts: 4, samples: 8, max_new_tokens: 16}
train: {micro_tokens: 256}
)";

ModelSpec spec() {
    ModelSpec s;
    s.vocab = 512, s.hidden = 64, s.layers = 2, s.heads = 4, s.kv_heads = 2, s.head_dim = 16, s.ffn = 128;
    s.max_position = 128;
    return s;
}

Plan plan(const std::vector<std::string>& overrides, int64_t longest = 8, bool train = true) {
    auto backend = make_cpu_backend();
    return make_plan(parse_recipe(base, "test", overrides).recipe, spec(), longest, *backend, train,
                     [](Model&, Model*, Arena&, Arena&, std::span<const int64_t>) {});
}

std::string refusal(const std::vector<std::string>& overrides, int64_t longest = 8) {
    try {
        plan(overrides, longest);
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        return e.what();
    }
    return "";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("sequences that fit neither the model nor a micro-batch are refused by key") {
    CHECK(contains(refusal({"rollout.max_new_tokens=125"}), "rollout.max_new_tokens"));
    CHECK(contains(refusal({"train.micro_tokens=20"}), "train.micro_tokens"));
    CHECK(refusal({"rollout.max_new_tokens=120"}).empty());
}

TEST_CASE("a model larger than the machine is refused before anything else is counted") {
    auto backend = make_cpu_backend();
    ModelSpec huge = spec();
    huge.layers = 40, huge.hidden = 65536, huge.ffn = 1 << 18, huge.heads = 512, huge.kv_heads = 64,
    huge.head_dim = 128;
    try {
        make_plan(
            parse_recipe(base, "test").recipe, huge, 8, *backend, true,
            [](Model&, Model*, Arena&, Arena&, std::span<const int64_t>) { FAIL("counted all the same"); });
        FAIL("planned terabytes");
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        CHECK(contains(e.what(), "this device has"));
    }
}

TEST_CASE("precision rules that match nothing, and a cache of another format in rollout alone, are refused") {
    CHECK(contains(refusal({"precision.bf16.modules=[\"*.down_porj\"]"}), "down_porj"));
    CHECK(contains(
        refusal({"precision={kv_cache: {format: bf16}, rollout: {recipe: bf16, kv_cache: {format: fp8}}}"}),
        "kv_cache"));
}

TEST_CASE("the verdict is exact for step-frozen precisions and says why for the others") {
    for (const char* exact : {"bf16", "blockwise", "mxfp8", "per_tensor"})
        CHECK(plan({std::string("precision.recipe=") + exact}).exactness.exact);
    Plan current = plan({"precision.recipe=per_tensor", "precision.per_tensor.scaling=current"});
    CHECK_FALSE(current.exactness.exact);
    CHECK(contains(verdict_text(current), "not exact, because"));
    Plan two = plan({"precision={recipe: bf16, rollout: {recipe: blockwise}}"});
    CHECK(contains(verdict_text(two), "not exact, because"));
    CHECK(contains(plan_text(two), "precision in rollout"));
}

TEST_CASE("a token's forward costs two FLOPs per weight of the linear layers and the head") {
    Plan p = plan({});
    const double q = 4 * 16, k = 2 * 16, body = 2 * (64 * (q + 2 * k) + q * 64 + 3 * 64 * 128);
    const double head = 512 * 64;
    // Attention to a single key, norms and quantization come on top, and are small.
    CHECK(p.forward_flops_per_token >= 2 * (body + head));
    CHECK(p.forward_flops_per_token < 2 * (body + head) * 1.1);
}

TEST_CASE("masters, gradients and moments are sixteen bytes a parameter; BF16 moments make it twelve") {
    const auto parameters = static_cast<double>(spec().parameters());
    Plan full = plan({}), half = plan({"optimizer.moments=bf16"}), frozen = plan({}, 8, false);
    CHECK(static_cast<double>(full.weights - half.weights) == Approx(4 * parameters).epsilon(0.02));
    CHECK(static_cast<double>(full.weights) > 16 * parameters);
    // Without training: masters and the forward layouts only.
    CHECK(static_cast<double>(frozen.weights) < 8 * parameters);
}

TEST_CASE("an FP8 cache takes half of a BF16 cache, and a memory limit is kept") {
    Plan wide = plan({"precision.kv_cache.format=bf16"}), narrow = plan({"precision.kv_cache.format=fp8"});
    CHECK(wide.pages == narrow.pages);
    CHECK(static_cast<double>(narrow.kv_cache) ==
          Approx(static_cast<double>(wide.kv_cache) / 2).epsilon(0.05));
    Plan tight = plan({"rollout.kv_memory=64KiB"});
    CHECK(tight.kv_cache <= 64 * 1024 + Arena::alignment * 4);
    CHECK(plan({"rollout.slots=3"}).engine.schedule.slots == 3);
}

TEST_CASE("a KL term plans a frozen copy") {
    CHECK(plan({}).reference_weights == 0);
    CHECK(plan({"algorithm.kl.beta=0.1"}).reference_weights > 0);
}
