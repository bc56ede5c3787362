// What a user gets wrong: exit code 2, one line that names the place, and nothing written.
#include <filesystem>

#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

struct Refused {
    Result result;
    bool wrote;
};

// Trains into a folder that is not there yet.
Refused refused(const Lab& lab, const std::string& recipe_text, const Strings& sets = {},
                const Options& o = {}) {
    const std::string recipe = lab.scratch().write("bad.yaml", recipe_text);
    Strings a = {"train", recipe};
    for (const auto& s : sets) a.push_back("--set"), a.push_back(s);
    Options options = o;
    options.folder = lab.scratch().path();
    Result r = run(a, options);
    return {r, std::filesystem::exists(lab.folder("runs"))};
}

void check_refused(const Refused& r, const Strings& words) {
    INFO(r.result.err);
    CHECK(r.result.code == 2);
    CHECK(r.result.out.empty());
    CHECK_FALSE(r.wrote);
    for (const auto& w : words) CHECK(r.result.said(w));
}

}  // namespace

TEST_CASE("f11: every bad recipe is refused with its place, and nothing is written") {
    Lab lab;
    const auto cases = read_json("f11_bad_recipes.json").at("bad");
    REQUIRE(cases.size() == 9);
    for (const auto& c : cases) {
        const std::string yaml = c.at("yaml");
        INFO(yaml);
        auto r = refused(lab, yaml);
        CHECK(r.result.code == 2);
        CHECK(r.result.out.empty());
        CHECK_FALSE(r.wrote);
        CHECK(r.result.said("bad.yaml"));
        CHECK_FALSE(r.result.err.empty());
    }
    check_refused(refused(lab, "optimizer:\n  learning_rte: 1.0e-6\n"),
                  {"bad.yaml:2", "optimizer.learning_rte", "optimizer."});
    check_refused(refused(lab, "optimizer:\n\tlr: 1e-6\n"), {"bad.yaml:2", "tab"});
}

TEST_CASE("an unknown key is refused with file, line and the nearest known key") {
    Lab lab;
    std::string text = lab_recipe;
    check_refused(refused(lab, text + "rollot: {prompts: 3}\n"), {"bad.yaml:13", "rollot", "rollout"});
    check_refused(refused(lab, text + "seed: 1\nseed: 2\n"), {"bad.yaml:14", "seed"});
}

TEST_CASE("overrides are held to the same rules as the file") {
    Lab lab;
    const std::string text = lab_recipe;
    check_refused(refused(lab, text, {"optimizer.lrr=1"}), {"optimizer.lrr", "optimizer.lr"});
    check_refused(refused(lab, text, {"optimizer.lr=fast"}), {"optimizer.lr", "number"});
    check_refused(refused(lab, text, {"rollout.samples=0"}), {"rollout.samples"});
    check_refused(refused(lab, text, {"rollout.samples"}), {"rollout.samples"});
    check_refused(refused(lab, text, {"precision.recipe=fp4"}), {"precision.recipe", "blockwise", "mxfp8"});
    check_refused(refused(lab, text, {"precision.kv_cache.format=bf16", "precision.attention=fp8"}),
                  {"precision.attention", "kv_cache"});
    check_refused(refused(lab, text, {"task.length=1"}), {"task.length"});
    check_refused(refused(lab, text, {"rollout.max_new_tokens=64"}), {"rollout.max_new_tokens"});
    check_refused(refused(lab, text, {"rollout.kv_memory=1KiB", "rollout.max_new_tokens=20"}),
                  {"rollout.kv_memory"});
}

TEST_CASE("files that are not there, or not what they should be, are named") {
    Lab lab;
    Result missing = run({"train", lab.folder("none.yaml")});
    CHECK(missing.code == 2);
    CHECK(missing.said("none.yaml"));

    const std::string text = lab_recipe;
    const size_t at = text.find("{init:"), end = text.find('\n', at);
    auto with_model = [&](const std::string& path) {
        return text.substr(0, at) + "{path: " + path + "}" + text.substr(end);
    };
    check_refused(refused(lab, with_model("absent.gguf")), {"absent.gguf"});
    lab.scratch().write("not.gguf", "this is no model, though long enough to hold a header of one\n");
    check_refused(refused(lab, with_model("not.gguf")), {"not.gguf"});
    lab.scratch().write("empty.gguf", "");
    check_refused(refused(lab, with_model("empty.gguf")), {"empty.gguf"});
    lab.scratch().write("cut.gguf", read_text(data_path("tiny.gguf")).substr(0, 2000));
    check_refused(refused(lab, with_model("cut.gguf")), {"cut.gguf"});
    check_refused(refused(lab, with_model("none"), {}), {"model"});
    std::filesystem::create_directory(lab.folder("hf"));
    check_refused(refused(lab, with_model("hf")), {"hf", "GGUF"});
    Result info = run({"info", lab.folder("not.gguf")});
    CHECK(info.code == 2);
    CHECK(info.said("not.gguf"));

    Strings file_task = {"task={name: exact_match, train: " + lab.folder("lines.jsonl") + "}"};
    check_refused(refused(lab, text, file_task), {"lines.jsonl"});
    lab.scratch().write("lines.jsonl", "{\"question\": \"1\", \"answer\": \"1\"}\n{\"question\": 2}\n");
    check_refused(refused(lab, text, file_task), {"lines.jsonl:2", "question"});
    lab.scratch().write("lines.jsonl", "{\"question\": \"1\", \"answer\": \"1\"}\n{\"question\n");
    check_refused(refused(lab, text, file_task), {"lines.jsonl"});
}

TEST_CASE("a run folder that cannot be made is named") {
    Lab lab;
    lab.scratch().write("occupied", "a file\n");
    Result r = lab.train("occupied/run");
    CHECK(r.code == 2);
    CHECK(r.said(lab.folder("occupied/run")));
}

TEST_CASE("command line mistakes exit with 2 and a word on what is allowed") {
    for (const Strings& a :
         {Strings{}, Strings{"trian"}, Strings{"train"}, Strings{"train", "--metrics"}, Strings{"recipe"},
          Strings{"recipe", "show"}, Strings{"eval"}, Strings{"--nonsense"}, Strings{"info", "a", "b"},
          Strings{"bench", "--shape", "huge"}, Strings{"bench", "--what", "everything"}}) {
        Result r = run(a);
        INFO((a.empty() ? "" : a.front()) << ": " << r.err);
        CHECK(r.code == 2);
        CHECK_FALSE(r.err.empty());
        CHECK(r.out.empty());
    }
    Result help = run({"--help"});
    CHECK(help.code == 0);
    for (const char* word : {"train", "eval", "generate", "plan", "bench", "recipe", "info", "Exit codes"})
        CHECK(help.out.find(word) != std::string::npos);
    CHECK(run({"--version"}).out.find("fp8rl ") == 0);
}

TEST_CASE("FP8RL_SIMD with a name that is none is refused, not ignored") {
    Lab lab;
    Options o;
    o.env = {{"FP8RL_SIMD", "nonsense"}};
    check_refused(refused(lab, lab_recipe, {}, o), {"FP8RL_SIMD=nonsense", "scalar"});
    CHECK(run({"info"}, o).code == 2);
}

TEST_CASE("a backend that this build lacks is refused by name") {
    if (run({"info"}).out.find("cuda") != std::string::npos) {
        WARN("this build has CUDA: its absence is not tested");
        return;
    }
    Lab lab;
    check_refused(refused(lab, lab_recipe, {"device.backend=cuda"}), {"cuda"});
}

TEST_CASE("a checkpoint of another model is refused, and the run that owns it is untouched") {
    Lab lab;
    lab.trained("run");
    const auto before = lab.listing("run");
    for (const char* other : {"model.init.ffn=96", "model.init.layers=3", "model.init.qk_norm=true"}) {
        INFO(other);
        Result r = lab.train("run", {other, "train.steps=9"}, {"--resume"});
        CHECK(r.code == 2);
        CHECK(r.said("another shape"));
        Result e = run({"eval", lab.recipe(), "--set", "checkpoint.dir=" + lab.folder("run"), "--set", other,
                        "--checkpoint", "latest"});
        CHECK(e.code == 2);
        CHECK(e.said("another shape"));
    }
    const auto after = lab.listing("run");
    REQUIRE(after.size() == before.size());
    for (size_t i = 0; i < before.size(); ++i)
        if (before[i].find(".lock\n") == std::string::npos) CHECK(after[i] == before[i]);
}

}  // namespace fp8rl::test
