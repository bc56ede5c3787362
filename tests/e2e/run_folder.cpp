// What a run leaves behind and what it prints.
#include "e2e/lab.h"

namespace fp8rl::test {

TEST_CASE("stdout carries JSON lines and nothing else; the log goes to stderr") {
    Lab lab;
    Result r = lab.trained("run");
    auto lines = json_lines(r.out);  // throws at the first line that is not JSON
    REQUIRE(lines.size() == lab_warmup + lab_steps + 1);
    int64_t step = 0;
    for (const auto& line : lines) {
        REQUIRE(line.is_object());
        for (const auto& [key, value] : line.items()) REQUIRE(value.is_primitive());
        CHECK(line.at("step").get<int64_t>() >= step);
        step = line.at("step").get<int64_t>();
    }
    CHECK(step == lab_warmup + lab_steps);
    CHECK(only(lines, "warmup").size() == lab_warmup);
    CHECK(only(lines, "validation").size() == 1);
    CHECK(r.said("rollout and training log-probs are exact"));
    CHECK(r.said("learned: validation accuracy"));
    CHECK(r.said("exactness: largest rollout/training log-prob difference 0.0 over"));
    CHECK(r.err.find('{') == std::string::npos);
}

TEST_CASE("every RL step of the lab's recipe has a gradient, so the other tests compare something") {
    Lab lab;
    lab.trained("run");
    auto rl = only(lab.metrics("run"), "rl");
    REQUIRE(rl.size() == lab_steps);
    CHECK(column(rl, "grad_norm").size() == lab_steps);
    for (double n : column(rl, "samples_trained")) CHECK(n > 0);
}

TEST_CASE("the run folder holds the resolved recipe, metrics, completions, summary and checkpoints") {
    Lab lab;
    Result r = lab.trained("run", {"checkpoint.every=20"});
    CHECK(lab.file("run", "metrics.jsonl") == r.out);

    // The resolved recipe is a recipe, and gives the same run again.
    const std::string resolved = lab.scratch().write("again.yaml", lab.file("run", "recipe.yaml"));
    Result check = run({"recipe", "check", resolved});
    CHECK(check.code == 0);
    CHECK(check.out == resolved + ": ok\n");
    Result again = run({"train", resolved, "--set", "checkpoint.dir=" + lab.folder("again")});
    REQUIRE(again.code == 0);
    CHECK(without(json_lines(again.out)) == without(json_lines(r.out)));
    CHECK(lab.weights("again") == lab.weights("run"));

    auto completions = json_lines(lab.file("run", "completions.jsonl"));
    CHECK(only(completions, "train").size() == lab_steps * 4);
    CHECK(only(completions, "validation").size() == 3 * 4);
    for (const auto& c : completions) {
        CHECK(c.at("prompt").get<std::string>().size() == 3);
        CHECK(c.at("answer").get<std::string>().size() == 2);
        CHECK((c.at("finish") == "stop" || c.at("finish") == "length"));
        const bool right = c.at("completion") == c.at("answer") && c.at("finish") == "stop";
        CHECK(c.at("reward").get<double>() == (right ? 1 : 0));
    }

    auto s = lab.summary("run");
    CHECK(s.at("name") == "lab");
    CHECK(s.at("steps") == lab_warmup + lab_steps);
    CHECK(s.at("exact") == true);
    CHECK(s.at("mismatch/max_abs") == 0);
    CHECK(s.at("generated_tokens").get<double>() > 0);
    CHECK(s.at("mismatch/tokens") == s.at("generated_tokens"));

    // The last step, three newest in all, and the best one beside them.
    CHECK(lab.file("run", "checkpoints/latest") == "step_106\n");
    for (const char* step : {"step_106", "step_103"})
        for (const char* name :
             {"weights.safetensors", "optimizer.safetensors", "state.json", "recipe.yaml", "manifest.json"})
            CHECK(lab.has("run", std::string("checkpoints/") + step + "/" + name));
    CHECK_FALSE(lab.has("run", "checkpoints/step_20"));
    std::string best = lab.file("run", "checkpoints/best");
    CHECK(best == "step_" + std::to_string(s.at("best_step").get<int64_t>()) + "\n");
}

TEST_CASE("a run is not overwritten unless told so; a finished run resumes to the same end") {
    Lab lab;
    lab.trained("run");
    const auto before = lab.listing("run");
    Result second = lab.train("run");
    CHECK(second.code == 2);
    CHECK(second.out.empty());
    CHECK(second.said(lab.folder("run")));
    CHECK(second.said("--resume"));
    CHECK(second.said("--overwrite"));
    auto after = lab.listing("run");
    REQUIRE(after.size() == before.size());
    for (size_t i = 0; i < before.size(); ++i)
        if (before[i].find(".lock\n") == std::string::npos) CHECK(after[i] == before[i]);

    const std::string weights = lab.weights("run"), metrics = lab.file("run", "metrics.jsonl");
    Result resumed = lab.trained("run", {}, {"--resume"});
    CHECK(resumed.out.empty());
    CHECK(resumed.said("resumed from"));
    CHECK(lab.weights("run") == weights);
    CHECK(lab.file("run", "metrics.jsonl") == metrics);
    CHECK(lab.summary("run").at("steps") == lab_warmup + lab_steps);

    lab.trained("run", {"seed=2"}, {"--overwrite"});
    CHECK(lab.weights("run") != weights);
    CHECK(lab.metrics("run").size() == lab_warmup + lab_steps + 1);

    Result both = lab.train("run", {}, {"--overwrite", "--resume"});
    CHECK(both.code == 2);
    Result nothing = lab.train("empty", {}, {"--resume"});
    CHECK(nothing.code == 2);
    CHECK(nothing.said("no run to resume"));
}

TEST_CASE("a finished run goes on when it is given more steps") {
    Lab lab;
    lab.trained("long", {"train.steps=9"});
    lab.trained("short", {"train.steps=6"});
    lab.trained("short", {"train.steps=9"}, {"--resume"});
    CHECK(lab.weights("short") == lab.weights("long"));
}

TEST_CASE("a second process is kept out of a run in progress") {
    Lab lab;
    Options pause;
    pause.env = {{"FP8RL_TEST_PAUSE", "first_write:60000"}};
    Process first(lab.arguments("run", {"checkpoint.every=1"}), pause);
    REQUIRE(first.wait_for_err("test pause"));
    Result second = lab.train("run", {}, {"--resume"});
    CHECK(second.code == 2);
    CHECK(second.said("another process writes this run"));
}

TEST_CASE("a table on demand, a wrong form refused") {
    Lab lab;
    Result table = lab.trained("run", {}, {"--metrics", "table"});
    CHECK(table.out.find("reward") != std::string::npos);
    CHECK(table.out.find('{') == std::string::npos);
    CHECK(lab.metrics("run").size() == lab_warmup + lab_steps + 1);
    Result wrong = lab.train("wrong", {}, {"--metrics", "xml"});
    CHECK(wrong.code == 2);
    CHECK(wrong.said("xml"));
    CHECK_FALSE(lab.has("wrong", "metrics.jsonl"));
}

TEST_CASE("a reader that leaves, as head -1 does, ends the run cleanly with a checkpoint") {
    Lab lab;
    const Strings sets = {"train.steps=200", "warmup.steps=0", "algorithm.entropy=0.01",
                          "validation.every=0"};
    Process p(lab.arguments("run", sets));
    REQUIRE(p.wait_for([](const Result& r) { return r.out.find('\n') != std::string::npos; }));
    p.close_stdout();
    Result r = p.finish();
    INFO(r.err);
    CHECK(r.signal == 0);
    CHECK(r.code == 130);
    CHECK(r.said("checkpoint saved, go on with --resume"));
    lab.trained("run", sets, {"--resume"});
    lab.trained("whole", sets);
    CHECK(lab.weights("run") == lab.weights("whole"));
    CHECK(without(lab.metrics("run")) == without(lab.metrics("whole")));
}

}  // namespace fp8rl::test
