// The commands around training: eval, generate, plan, recipe, info.
#include <algorithm>

#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

// A trained run and the commands that look at it.
struct Trained {
    Lab lab;
    Trained() { lab.trained("run", {"checkpoint.every=20"}); }
    Result command(Strings arguments, const Options& o = {}) const {
        arguments.insert(arguments.begin() + 1, lab.recipe());
        arguments.push_back("--set"), arguments.push_back("checkpoint.dir=" + lab.folder("run"));
        return run(arguments, o);
    }
    Line object(const Strings& arguments) const {
        Result r = command(arguments);
        INFO(r.err);
        REQUIRE(r.code == 0);
        return json_lines(r.out).at(0);
    }
};

}  // namespace

TEST_CASE("eval of the last and the best checkpoint gives the accuracy that training reported") {
    Trained t;
    auto s = t.lab.summary("run");
    auto latest = t.object({"eval", "--checkpoint", "latest"});
    CHECK(latest.at("accuracy") == s.at("validation/accuracy_last"));
    CHECK(latest.at("problems") == 8);
    CHECK(latest.at("samples") == 1);
    auto best = t.object({"eval", "--checkpoint", "best"});
    CHECK(best.at("accuracy") == s.at("validation/accuracy_best"));
    auto folder = t.object({"eval", "--checkpoint", t.lab.folder("run") + "/checkpoints/step_106"});
    CHECK(folder.at("accuracy") == latest.at("accuracy"));
    CHECK(folder.at("mean_tokens") == latest.at("mean_tokens"));
    // As it starts, the model sorts nothing.
    CHECK(t.object({"eval"}).at("accuracy") == 0);
}

TEST_CASE("eval samples: pass@k grows with k, completions are written, nonsense is refused") {
    Trained t;
    const std::string file = t.lab.folder("completions.jsonl");
    auto e = t.object({"eval", "--checkpoint", "latest", "--samples", "4", "--temperature", "1", "--k",
                       "1,2,4", "--completions", file});
    CHECK(e.at("samples") == 4);
    CHECK(e.at("temperature") == 1);
    CHECK(e.at("pass@1").get<double>() == Approx(e.at("accuracy").get<double>()));
    CHECK(e.at("pass@4").get<double>() >= e.at("pass@2").get<double>());
    CHECK(e.at("pass@2").get<double>() >= e.at("pass@1").get<double>());
    CHECK(e.contains("cons@4"));
    auto lines = json_lines(read_text(file));
    REQUIRE(lines.size() == 32);
    CHECK(sum(column(lines, "reward")) / 32 == Approx(e.at("accuracy").get<double>()));
    // The same again: sampling is keyed, not drawn from the clock.
    auto again = t.object({"eval", "--checkpoint", "latest", "--samples", "4", "--temperature", "1"});
    CHECK(again.at("accuracy") == e.at("accuracy"));

    CHECK(t.command({"eval", "--samples", "4"}).code == 2);
    Result k = t.command({"eval", "--samples", "4", "--temperature", "1", "--k", "5"});
    CHECK(k.code == 2);
    CHECK(k.said("--k 5"));
    Result gone = t.command({"eval", "--checkpoint", t.lab.folder("nowhere")});
    CHECK(gone.code == 2);
    CHECK(gone.said("nowhere"));
    Result none = run({"eval", t.lab.recipe(), "--set", "checkpoint.dir=" + t.lab.folder("none"),
                       "--checkpoint", "latest"});
    CHECK(none.code == 2);
}

TEST_CASE("generate from a checkpoint: streamed, as JSON, many prompts, standard input") {
    Trained t;
    const Strings from = {"generate", "--checkpoint", "latest", "--max-new-tokens", "4"};
    auto generate = [&](const Strings& more, const Options& o = {}) {
        Strings a = from;
        if (std::find(more.begin(), more.end(), "-t") == more.end()) a.insert(a.end(), {"-t", "0"});
        a.insert(a.end(), more.begin(), more.end());
        Result r = t.command(a, o);
        INFO(r.err);
        CHECK(r.code == 0);
        return r;
    };
    Result streamed = generate({"-p", "31>"});
    CHECK(generate({"-p", "31>"}).out == streamed.out);
    CHECK(generate({"-p", "31>", "--plain"}).out == streamed.out);      // this model has no chat template
    CHECK(generate({"-p", "31>", "--seed", "9"}).out == streamed.out);  // greedy
    REQUIRE(streamed.out.size() > 1);

    auto lines = json_lines(generate({"--json", "-p", "31>", "-p", "07>"}).out);
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].at("prompt") == "31>");
    CHECK(lines[0].at("completion").get<std::string>() + "\n" == streamed.out);
    CHECK(lines[1].at("prompt") == "07>");
    CHECK(lines[0].at("logp").get<double>() <= 0);
    CHECK(lines[0].at("tokens").get<int64_t>() >= 1);

    Options o;
    o.input = "31>\n\n07>\n";
    Result piped = generate({}, o);
    CHECK(piped.out == lines[0].at("completion").get<std::string>() + "\n" +
                           lines[1].at("completion").get<std::string>() + "\n");

    auto samples = json_lines(generate({"--json", "-p", "31>", "-n", "3", "-t", "2", "--ignore-eos"}).out);
    REQUIRE(samples.size() == 3);
    for (const auto& s : samples) CHECK(s.at("tokens") == 4);
    CHECK(generate({"--json", "-p", "31>", "-n", "3", "-t", "2", "--ignore-eos"}).out !=
          generate({"--json", "-p", "31>", "-n", "3", "-t", "2", "--ignore-eos", "--seed", "2"}).out);
    CHECK(json_lines(generate({"--json", "-p", "31>", "--stop", "1"}).out)[0]
              .at("completion")
              .get<std::string>()
              .find('1') == std::string::npos);
}

TEST_CASE("generate refuses what cannot be done") {
    Trained t;
    Result none = t.command({"generate"});
    CHECK(none.code == 2);
    CHECK(none.said("no prompt"));
    Result room = t.command({"generate", "-p", "31>", "--max-new-tokens", "100"});
    CHECK(room.code == 2);
    CHECK(room.said("32 positions"));
    CHECK(t.command({"generate", "-p", "1", "-n", "0", "--max-new-tokens", "4"}).code == 2);
    CHECK(t.command({"generate", "-p", "1", "-t", "-1", "--max-new-tokens", "4"}).code == 2);
    CHECK(t.command({"generate", "-p", "1", "--top-p", "0", "--max-new-tokens", "4"}).code == 2);
}

TEST_CASE("plan says precision, exactness, bytes and work, and touches nothing") {
    Lab lab;
    Options o;
    o.folder = lab.scratch().path();
    Result r = run({"plan", lab.recipe()}, o);
    REQUIRE(r.code == 0);
    for (const char* word : {"layers 0-1", "self_attn.q_proj", "e4m3 128x128 f32", "e4m3 1x128 f32",
                             "KV cache: e4m3", "exact: equal to the last bit", "weights", "scratch",
                             "workspace", "total", "FLOP per token", "slots 96"}) {
        INFO(word);
        CHECK(r.out.find(word) != std::string::npos);
    }
    CHECK_FALSE(lab.has("runs", ""));
    Result bf16 = run({"plan", lab.recipe(), "--set", "precision.recipe=bf16"});
    CHECK(bf16.out.find("e4m3 128x128") == std::string::npos);
}

TEST_CASE("recipe show tells every value and where it came from; --yaml runs again; --docs documents keys") {
    Lab lab;
    Result show = run({"recipe", "show", lab.recipe(), "--set", "optimizer.lr=5e-7"});
    REQUIRE(show.code == 0);
    auto line_of = [&](const std::string& word) {
        std::istringstream in(show.out);
        for (std::string line; std::getline(in, line);)
            if (line.find(word) != std::string::npos) return line;
        FAIL("no line with " << word << " in\n" << show.out);
        return std::string();
    };
    CHECK(line_of("5e-7").find("--set") != std::string::npos);
    CHECK(line_of("blockwise").find("lab.yaml:3") != std::string::npos);
    CHECK(line_of("updates_per_step").find("default") != std::string::npos);

    Result yaml = run({"recipe", "show", "--yaml", lab.recipe()});
    const std::string copy = lab.scratch().write("copy.yaml", yaml.out);
    CHECK(run({"recipe", "show", "--yaml", copy}).out == yaml.out);
    CHECK(run({"recipe", "check", copy}).code == 0);

    Result docs = run({"recipe", "show", "--docs"});
    REQUIRE(docs.code == 0);
    // Every key of a resolved recipe stands in the documentation.
    std::istringstream in(yaml.out);
    for (std::string line; std::getline(in, line);) {
        const std::string key =
            line.substr(line.find_first_not_of(' '), line.find(':') - line.find_first_not_of(' '));
        INFO(key);
        CHECK(docs.out.find(key) != std::string::npos);
    }
    Result bad = run({"recipe", "check", lab.recipe(), "--set", "seed=-1"});
    CHECK(bad.code == 2);
    CHECK(bad.said("seed"));
}

TEST_CASE("every shipped recipe is right") {
    for (const char* name : {"quickstart", "quickstart-bf16", "quickstart-per_tensor",
                             "quickstart-blockwise-pow2", "quickstart-mxfp8", "quickstart-fp8-rollout-only",
                             "quickstart-fp8-rollout-only-tis", "quickstart-first-last-bf16",
                             "smollm2-135m-arithmetic-blockwise", "smollm2-135m-gsm8k-blockwise"}) {
        Result r = run({"recipe", "check", std::string(FP8RL_SOURCE_DIR) + "/configs/" + name + ".yaml"});
        INFO(r.err);
        CHECK(r.code == 0);
    }
}

TEST_CASE("info names this build and machine, and what a model file lacks") {
    Result machine = run({"info"});
    REQUIRE(machine.code == 0);
    for (const char* word : {"version", "backends", "simd", "scalar", "threads", "launcher"})
        CHECK(machine.out.find(word) != std::string::npos);
    // A GGUF file that is whole but no model of ours: what is missing is named.
    Result model = run({"info", data_path("tiny.gguf")});
    CHECK(model.code == 2);
    CHECK(model.said("token_embd.weight is missing"));
}

}  // namespace fp8rl::test
