// Claims about reading a recipe: f11's refusals, where a fault is said to be, overrides, contradictions.
#include "helpers.h"

using namespace fp8rl;
using namespace fp8rl::test;

TEST_CASE("f11: bad recipes are refused, each by its fault") {
    const auto f = read_json("f11_bad_recipes.json");
    // What a refusal must contain, in the order of the file; group_size is our rollout.samples.
    const std::vector<std::vector<const char*>> expected = {
        {"r.yaml:2", "optimizer.learning_rte", "optimizer.lr"},
        {"r.yaml:2", "optimizer.lr", "number"},
        {"r.yaml:2", "rollout.max_new_tokens", "integer"},
        {"r.yaml:2", "rollout.samples", "out of range"},
        {"r.yaml:2", "optimizer.lr", "finite"},
        {"r.yaml:2", "tab"},
        {"r.yaml:1", "not YAML"},
        {"r.yaml", "empty"},
    };
    const auto& bad = f.at("bad");
    REQUIRE(bad.size() == expected.size() + 1);
    for (size_t i = 0; i < expected.size(); ++i) {
        std::string yaml = bad[i].at("yaml");
        if (auto at = yaml.find("group_size"); at != std::string::npos) yaml.replace(at, 10, "samples");
        INFO(yaml);
        const std::string message = yaml.empty() ? refusal_of(yaml) : refusal(yaml);
        for (const char* part : expected[i]) CHECK(has(message, {part}));
        CHECK(message.find('\n') == std::string::npos);
    }
    // A section that is present but empty: its defaults.
    CHECK(recipe_of(bad.back().at("yaml").get<std::string>()) == recipe_of(""));

    const auto& o = f.at("override");
    const std::string recipe = o.at("recipe");
    CHECK(recipe_of(recipe).optimizer.lr == 1e-5);
    CHECK(recipe_of(recipe, {o.at("command_line")}).optimizer.lr == o.at("expect_lr").get<double>());
    CHECK(
        has(refusal(recipe, {"optimizer.lrr=1"}), {"--set", "optimizer.lrr", "did you mean optimizer.lr?"}));
}

TEST_CASE("all faults of a file are reported at once, one line each") {
    const std::string message = refusal(
        "optimizer:\n  lr: fast\n  lr: 2\nrollout: {samples: 0}\nsede: 1\nprecision:\n  recipe: bf61\n",
        {"x.y=1"});
    CHECK(std::count(message.begin(), message.end(), '\n') == 5);
    CHECK(has(message,
              {"r.yaml:3: optimizer.lr: given twice; first on line 2", "r.yaml:2: optimizer.lr: number",
               "r.yaml:4: rollout.samples", "r.yaml:5: sede: unknown key; did you mean seed?",
               "r.yaml:7: precision.recipe: one of bf16, fp32, per_tensor, blockwise, mxfp8",
               "did you mean bf16?", "--set: x: unknown key"}));
}

TEST_CASE("unknown keys name the nearest known one, wherever it stands") {
    CHECK(has(refusal("lr: 1"), {"lr: unknown key", "warmup.lr or optimizer.lr"}));
    CHECK(has(refusal("optimizer: {learning_rate: 1}"), {"did you mean optimizer.lr?"}));
    CHECK(has(refusal("rollout: {group_size: 8}"), {"did you mean rollout.samples?"}));
    CHECK(has(refusal("rollout: {max_tokens: 8}"), {"did you mean rollout.max_new_tokens?"}));
    CHECK(has(refusal("precision: {kv_cache: {formt: fp8}}"), {"did you mean precision.kv_cache.format?"}));
    CHECK(has(refusal("precision: {rollout: {backward: bf16}}"),
              {"precision.rollout.backward", "unknown key"}));
    CHECK(has(refusal("precision: {scale_rule: vllm}"), {"precision.scale_rule: unknown key"}));
    CHECK(has(refusal("zzzzzzzz: 8"), {"known here: name"}));
    CHECK(has(refusal("optimizer.lr: 1"), {"nested"}));
}

TEST_CASE("what a recipe does not need of YAML is refused with its line") {
    CHECK(has(refusal("a: &x 1\nb: *x\n"), {"r.yaml:1", "anchor"}));
    CHECK(has(refusal("name: !!str 1\n"), {"r.yaml:1", "tag"}));
    CHECK(has(refusal("name: a\n---\nname: b\n"), {"r.yaml:2", "second document"}));
    CHECK(has(refusal("? [a]\n: 1\n"), {"r.yaml:1", "a key must be a word"}));
    CHECK(has(refusal("~: 1\n"), {"r.yaml:1", "a key must be a word"}));
    CHECK(has(refusal_of("- a\n- b\n"), {"map of keys", "a list"}));
    CHECK(has(refusal_of("just words"), {"map of keys"}));
    CHECK(has(refusal_of("# nothing\n"), {"empty"}));
    CHECK(has(refusal(std::string(3000, '[')), {"r.yaml:1"}));
    CHECK(has(refusal("name: " + std::string(2 << 20, 'x')), {"larger than"}));
    CHECK(has(refusal(std::string("name: a\0b", 9)), {"zero byte"}));
    // A quadratic-blow-up bomb never expands: its first anchor is refused.
    CHECK(has(refusal("a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: [*b,*b,*b]\n"), {"r.yaml:1", "anchor"}));
    CHECK_THROWS_AS(load_recipe("/nowhere/at/all.yaml"), Error);
    CHECK_THROWS_AS(load_recipe("/tmp"), Error);
}

TEST_CASE("--set overrides scalars, lists, maps and optional sections, and the last one wins") {
    const Recipe r = recipe_of("optimizer: {lr: 1, eps: 1e-9}\n",
                               {"optimizer.lr=2", "optimizer.lr=3e-4", "optimizer.betas=[0.8, 0.9]",
                                "precision.kv_cache={format: fp8, margin: 2}", "rollout.stop=[\"a,b\", c]",
                                "precision.rollout={recipe: mxfp8}", "model.init.layers=7", "name=a=b"});
    CHECK(r.optimizer.lr == 3e-4);
    CHECK(r.optimizer.eps == 1e-9);
    CHECK(r.optimizer.beta2 == 0.9);
    CHECK(r.precision.train.kv_cache.format == CacheFormat::fp8);
    CHECK(r.precision.train.kv_cache.margin == 2);
    CHECK(r.rollout.stop == std::vector<std::string>{"a,b", "c"});
    CHECK(r.precision.rollout->recipe == PrecisionMode::mxfp8);
    CHECK(r.model.init->layers == 7);
    CHECK(r.name == "a=b");
    CHECK(!recipe_of("precision: {rollout: {recipe: bf16}}", {"precision.rollout=same"}).precision.rollout);
    CHECK(recipe_of("", {"model.init=none", "model.path=m.gguf"}).model.path == "m.gguf");
    CHECK(has(refusal("", {"lr"}), {"--set lr", "key=value"}));
    CHECK(has(refusal("", {"=1"}), {"key=value"}));
    CHECK(has(refusal("", {"optimizer.betas=[0.8"}), {"--set optimizer.betas=[0.8", "not YAML"}));
    CHECK(has(refusal("", {"optimizer=3"}), {"optimizer: a map of keys is needed"}));
    CHECK(has(refusal("", {"optimizer.lr.x=3"}), {"optimizer.lr"}));
    CHECK(has(refusal("", {"precision.rollout=other"}), {"same, or a map"}));
}

TEST_CASE("contradicting keys are refused at the key to be changed") {
    CHECK(has(refusal_of("name: a\n"), {"r.yaml: model", "path", "init"}));
    CHECK(has(refusal("", {"model.path=a.gguf"}), {"model.path: path and init exclude each other"}));
    CHECK(has(refusal("precision:\n  attention: fp8\n"), {"r.yaml:2: precision.attention", "kv_cache"}));
    CHECK(has(refusal("precision: {rollout: {attention: fp8}}"), {"precision.rollout.attention"}));
    CHECK(has(refusal("precision: {recipe: mxfp8, pow2_scales: true}"), {"precision.pow2_scales"}));
    CHECK(has(refusal("precision: {rollout: {recipe: bf16, scale_rule: vllm}}"),
              {"precision.rollout.scale_rule"}));
    CHECK(has(refusal("precision: {recipe: fp32, kv_cache: {format: fp8}}"), {"precision.kv_cache.format"}));
    CHECK(has(refusal("task: {name: gsm8k}"), {"task.train"}));
    CHECK(has(refusal("task: {train: a.jsonl}"), {"task.train", "generates"}));
    CHECK(has(refusal("task: {name: command, train: a.jsonl}"), {"task.command.argv"}));
    CHECK(has(refusal("task: {command: {argv: [prog]}}"), {"task.command.argv"}));
    CHECK(has(refusal("task: {prompt: hello}"), {"task.prompt", "{question}"}));
    CHECK(has(refusal("algorithm: {constant: 5}"), {"algorithm.constant", "constant_length"}));
    CHECK(has(refusal("algorithm: {refill_equal_groups: true}\nrollout: {samples: 1}"),
              {"refill_equal_groups"}));
    CHECK(has(refusal("validation: {size: 300}"), {"validation.size", "200"}));
    CHECK(has(refusal("validation: {samples: 4}"), {"validation.samples", "temperature"}));
    CHECK(has(refusal("checkpoint: {time_limit: 4m}"), {"checkpoint.time_limit"}));
    CHECK(has(refusal("name: a/b"), {"name", "folder"}));
    CHECK(has(refusal("", {"model.init.kv_heads=3"}), {"--set: model.init.kv_heads", "4"}));
    CHECK(has(refusal("", {"model.init.hidden=130"}), {"model.init.hidden", "head_dim"}));
    CHECK(has(refusal("", {"model.init.max_position=256"}), {"rollout.max_new_tokens", "prompt"}));
    // A key that could not be read is not blamed twice.
    const auto once = refusal("precision: {attention: fp8, kv_cache: {format: fp9}}");
    CHECK(has(once, {"precision.kv_cache.format"}));
    CHECK(once.find("precision.attention") == std::string::npos);
}

TEST_CASE("{name} is expanded in paths, after overrides") {
    const Recipe r = recipe_of("name: a\ncheckpoint: {dir: \"x/{name}/{name}\"}\n", {"name=b"});
    CHECK(r.checkpoint.dir == "x/b/b");
    CHECK(recipe_of("").checkpoint.dir == "runs/run");
    CHECK(has(refusal("checkpoint: {dir: \"x/{nam}\"}"), {"checkpoint.dir", "{name}"}));
}
