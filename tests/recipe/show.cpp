// Claims about what is written: the resolved recipe reads back, origins are true, every key is documented,
// and every shipped recipe is valid.
#include <filesystem>

#include "helpers.h"
#include "recipe/fields.h"

using namespace fp8rl;
using namespace fp8rl::test;

// Every key away from its default.
static const char* full = R"(
name: everything
note: "quote \" and \\ and\nnew line, tab\t, bell \x07, č, 日本"
seed: 77
model:
  init: {vocab_size: 300, hidden: 96, layers: 2, heads: 6, kv_heads: 3, head_dim: 20, ffn: 100, rope_theta: 5e5,
         rms_eps: 1e-6, tied: false, qk_norm: true, attention_bias: true, max_position: 512, init_std: 0.03}
precision:
  recipe: per_tensor
  pow2_scales: true
  per_tensor: {scaling: static, history: 3, margin: 2, amax: most_recent, static_scale: 0.1}
  backward: e5m2
  bf16: {first_layers: 1, last_layers: 2, modules: ["*.down_proj", "a b"]}
  kv_cache: {format: fp8, recalibrate: prompts, margin: 1.5, max_saturated: 0.2}
  attention: fp8
  rollout: {recipe: blockwise, scale_rule: vllm, kv_cache: {format: fp8}, pow2_scales: true}
task: {name: command, system_prompt: "s: x", prompt: "Q {question}", format: plain, max_prompt_tokens: 99,
       validation_size: 11, shuffle_rewards: true, reward_truncated: true, length: 6, digits: 3, operands: 4,
       operations: [divide, multiply], problem_steps: 1, train: "t/{name}", validation: v, question_key: q,
       answer_key: a, command: {argv: [prog, "", "x y"], timeout: 1.5h}}
rollout: {prompts: 3, samples: 5, max_new_tokens: 17, temperature: 0.7, top_p: 0.9, top_k: 40, stop: ["\n", x],
          stop_ids: [1, 2], ignore_eos: true, slots: 9, kv_memory: 1MiB, chunk: 33, prefix_sharing: false,
          log_completions: 0}
algorithm: {name: sft, clip: [0.1, 0.28], aggregate: constant_length, constant: 12, std: none, std_epsilon: 1e-4,
            kl: {beta: 0.1, kind: k1}, entropy: -0.01, correction: {kind: token_truncated, cap: 3},
            updates_per_step: 2, mask_truncated: true, refill_equal_groups: true, refill_tries: 4, batch: 7}
warmup: {steps: 5, batch: 6, lr: 1e-2, warmup_steps: 1, grad_clip: 0, weight_decay: 0.1}
optimizer: {lr: 3e-5, weight_decay: 0.01, betas: [0.8, 0.99], eps: 1e-7, grad_clip: 0.5, warmup_steps: 2,
            schedule: cosine, final_fraction: 0.2, moments: bf16, decay_norms: true}
train: {steps: 9, micro_tokens: 100, recompute: block, on_nonfinite: skip, verify: trained}
validation: {at_start: false, every: 3, at_end: false, samples: 2, temperature: 0.5, size: 10}
checkpoint: {dir: "out/{name}", every: 4, keep: 2, keep_best: false, before_time_limit: 30s, time_limit: 1h}
device: {backend: cpu, threads: 2, math: exact}
)";

TEST_CASE("the resolved recipe reads back to an equal one") {
    for (const std::string& text :
         {std::string(full), with_model(""), std::string("model: {path: \"a b.gguf\"}")}) {
        const Recipe r = parse_recipe(text, "a.yaml").recipe;
        const std::string yaml = to_yaml(r);
        const Recipe again = parse_recipe(yaml, "b.yaml").recipe;
        CHECK(again == r);
        CHECK(to_yaml(again) == yaml);
    }
}

TEST_CASE("the test's full recipe moves every key but the model's path away from its default") {
    const Recipe r = parse_recipe(full, "a.yaml").recipe;
    Recipe defaults;
    defaults.model.init.emplace();
    defaults.precision.rollout.emplace();
    size_t same = 0;
    for (const auto& f : recipe::fields()) {
        const bool rollout_default = f.key.starts_with("precision.rollout.") && f.get(r) == f.get(defaults);
        if (rollout_default || f.key == "model.path" || f.key == "model.init.tokenizer" ||
            f.key == "task.word_problems")
            ++same;
        else
            CHECK((f.get(r) != f.get(defaults) || f.key == ""));
    }
    CHECK(same < 20);
}

TEST_CASE("show gives every value and where it came from") {
    const auto loaded =
        parse_recipe("seed: 3\nmodel:\n  init: {layers: 2}\n", "dir/r.yaml", {"optimizer.lr=5e-7"});
    const std::string text = show(loaded);
    CHECK(has(text, {"seed = 3 ", "(dir/r.yaml:1)", "optimizer.lr = 5e-7 ", "(--set)",
                     "precision.rollout = same", "checkpoint.before_time_limit = 300s"}));
    std::istringstream in(text);
    size_t lines = 0, defaults = 0;
    for (std::string line; std::getline(in, line); ++lines) {
        if (line.starts_with("model.init.layers = 2")) CHECK(line.ends_with("(dir/r.yaml:3)"));
        if (line.starts_with("optimizer.lr")) CHECK(line.ends_with("(--set)"));
        defaults += line.ends_with("(default)");
    }
    CHECK(defaults == lines - 3);
    CHECK(has(show(parse_recipe("model: {path: x}", "r.yaml")), {"model.init = none"}));
}

TEST_CASE("every key is documented with its type and default, and says something") {
    const std::string text = recipe_documentation();
    for (const auto& f : recipe::fields()) {
        CHECK(has(text, {(f.key + " = ").c_str(), f.doc.c_str(), f.type.c_str()}));
        CHECK(f.doc.size() >= 10);
    }
    for (const auto& s : recipe::sections()) CHECK(s.doc.size() >= 8);
    // The excerpt of keys that the design names.
    for (const char* key :
         {"precision.kv_cache.recalibrate", "algorithm.correction.cap", "rollout.top_k", "optimizer.moments",
          "train.on_nonfinite", "checkpoint.before_time_limit", "device.math"})
        CHECK(has(text, {key}));
}

TEST_CASE("every key's section is in the table of sections") {
    for (const auto& f : recipe::fields()) {
        const auto section = recipe::section_of(f.key);
        bool known = section.empty();
        for (const auto& s : recipe::sections()) known |= s.key == section;
        INFO(f.key);
        CHECK(known);
    }
}

TEST_CASE("every shipped recipe is valid, named after its file, and is what its name says") {
    std::map<std::string, Recipe> shipped;
    for (const auto& e : std::filesystem::directory_iterator(std::string(FP8RL_SOURCE_DIR) + "/configs")) {
        if (e.path().extension() != ".yaml") continue;
        INFO(e.path().string());
        const Recipe r = load_recipe(e.path().string()).recipe;
        CHECK(r.name == e.path().stem().string());
        shipped[r.name] = r;
    }
    REQUIRE(shipped.size() >= 10);
    const auto& q = shipped.at("quickstart");
    CHECK(q.precision.train.recipe == PrecisionMode::blockwise);
    CHECK(q.precision.train.kv_cache.format == CacheFormat::fp8);
    CHECK(!q.precision.rollout);
    CHECK(shipped.at("quickstart-bf16").precision.train.recipe == PrecisionMode::bf16);
    CHECK(shipped.at("quickstart-per_tensor").precision.train.recipe == PrecisionMode::per_tensor);
    CHECK(shipped.at("quickstart-blockwise-pow2").precision.train.pow2_scales);
    CHECK(shipped.at("quickstart-mxfp8").precision.train.recipe == PrecisionMode::mxfp8);
    CHECK(shipped.at("quickstart-first-last-bf16").precision.train.bf16.first_layers == 1);
    const auto& only = shipped.at("quickstart-fp8-rollout-only");
    CHECK(only.precision.train.recipe == PrecisionMode::bf16);
    CHECK(only.precision.rollout->recipe == PrecisionMode::blockwise);
    CHECK(only.algorithm.correction.kind == CorrectionKind::none);
    CHECK(shipped.at("quickstart-fp8-rollout-only-tis").algorithm.correction.kind ==
          CorrectionKind::token_truncated);
    CHECK(shipped.at("smollm2-135m-arithmetic-blockwise").model.path);
    CHECK(shipped.at("smollm2-135m-gsm8k-blockwise").task.name == TaskName::gsm8k);
    // The quickstart family differs from the quickstart in precision, correction and name alone.
    for (auto [name, r] : shipped) {
        if (name.rfind("quickstart", 0) != 0) continue;
        INFO(name);
        r.name = q.name, r.note = q.note, r.precision = q.precision,
        r.algorithm.correction = q.algorithm.correction;
        r.checkpoint.dir = q.checkpoint.dir;
        CHECK(r == q);
    }
}
