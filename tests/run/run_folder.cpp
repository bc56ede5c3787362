// The run folder: no run is overwritten by accident, no folder has two writers, and what it holds reads back.
#include "run/run_folder.h"

#include "support.h"

using namespace fp8rl;
using namespace fp8rl::run;
using namespace fp8rl::run::test;

TEST_CASE("a new folder is made with its parents, and a used one is refused with both ways out") {
    TempFolder folder;
    const std::string path = folder / "runs/deep/one";
    { RunFolder(path, OpenMode::fresh).write_recipe("name: one\n"); }
    CHECK(fp8rl::test::read_text(path + "/recipe.yaml") == "name: one\n");
    std::string message = refusal([&] { RunFolder(path, OpenMode::fresh); });
    CHECK(holds(message, path));
    CHECK(holds(message, "--resume"));
    CHECK(holds(message, "--overwrite"));
    CHECK(fp8rl::test::read_text(path + "/recipe.yaml") == "name: one\n");
}

TEST_CASE("a folder with other files in it is no run; overwriting removes a run's files and only those") {
    TempFolder folder;
    write_file(folder / "slurm-1.out", "log");
    { RunFolder run(folder.path(), OpenMode::fresh); }
    write_file(folder / "metrics.jsonl", "{\"step\": 1}\n");
    fs::create_directories(folder / "checkpoints/step_1");
    write_file(folder / "checkpoints/step_1/manifest.json", "{}");
    CHECK(holds(refusal([&] { RunFolder(folder.path(), OpenMode::fresh); }), "holds a run already"));
    { RunFolder run(folder.path(), OpenMode::overwrite); }
    CHECK(fs::exists(folder / "slurm-1.out"));
    CHECK(!fs::exists(folder / "metrics.jsonl"));
    CHECK(!fs::exists(folder / "checkpoints"));
    { RunFolder run(folder.path(), OpenMode::fresh); }
}

TEST_CASE("resuming needs a run") {
    TempFolder folder;
    CHECK(holds(refusal([&] { RunFolder(folder / "absent", OpenMode::resume); }), "no such folder"));
    CHECK(!fs::exists(folder / "absent"));
    CHECK(holds(refusal([&] { RunFolder(folder.path(), OpenMode::resume); }), "holds none"));
    write_file(folder / "recipe.yaml", "name: a\n");
    { RunFolder run(folder.path(), OpenMode::resume); }
    CHECK(fs::exists(folder / "recipe.yaml"));
}

TEST_CASE("a second process is refused while the first holds the folder, and not after it was killed") {
    TempFolder folder;
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_t child = start([&] {
        RunFolder run(folder.path(), OpenMode::fresh);
        if (::write(ready[1], "x", 1) != 1) return 1;
        for (;;) ::pause();
        return 0;
    });
    char c;
    REQUIRE(::read(ready[0], &c, 1) == 1);
    for (OpenMode mode : {OpenMode::fresh, OpenMode::overwrite}) {
        std::string message = refusal([&] { RunFolder(folder.path(), mode); });
        CHECK(holds(message, "another process"));
        CHECK(holds(message, "process " + std::to_string(child)));
    }
    ::kill(child, SIGKILL);
    CHECK(wait_for(child) == 1000 + SIGKILL);
    { RunFolder run(folder.path(), OpenMode::overwrite); }
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST_CASE("one process cannot open its own folder twice") {
    TempFolder folder;
    RunFolder run(folder.path(), OpenMode::fresh);
    CHECK(holds(refusal([&] { RunFolder(folder.path(), OpenMode::overwrite); }), "another process"));
}

TEST_CASE("a folder that cannot be made is refused with its path") {
    TempFolder folder;
    write_file(folder / "file", "");
    CHECK(holds(refusal([&] { RunFolder(folder / "file/run", OpenMode::fresh); }), folder / "file/run"));
}

TEST_CASE("the summary is a JSON object with one member per line") {
    TempFolder folder;
    RunFolder run(folder.path(), OpenMode::fresh);
    run.write_summary(Record().set("steps", 3).set("validation/accuracy", 0.9).set("note", "ok"));
    std::string text = fp8rl::test::read_text(run.file("summary.json"));
    CHECK(text == "{\n  \"steps\": 3,\n  \"validation/accuracy\": 0.9,\n  \"note\": \"ok\"\n}\n");
    run.write_summary(Record());
    CHECK(nlohmann::json::parse(fp8rl::test::read_text(run.file("summary.json"))).empty());
}

TEST_CASE("completions are JSON lines, also when their text is not UTF-8") {
    TempFolder folder;
    {
        CompletionsWriter writer(folder / "completions.jsonl");
        Completion c;
        c.step = 2;
        c.phase = "train";
        c.prompt = "1 + 2 = ?\n";
        c.completion = "3\xff\xc3";
        c.answer = "3";
        c.reward = 1;
        c.tokens = 4;
        c.finish = "stop";
        writer.write(c);
        c.step = 3;
        c.answer.clear();
        writer.write(c);
    }
    std::ifstream in(folder / "completions.jsonl");
    std::string line;
    REQUIRE(std::getline(in, line));
    auto j = nlohmann::json::parse(line);
    CHECK(j["step"] == 2);
    CHECK(j["prompt"] == "1 + 2 = ?\n");
    CHECK(j["completion"] == "3\xEF\xBF\xBD\xEF\xBF\xBD");
    CHECK(j["answer"] == "3");
    CHECK(j["reward"] == 1.0);
    CHECK(j["tokens"] == 4);
    CHECK(j["finish"] == "stop");
    REQUIRE(std::getline(in, line));
    CHECK(!nlohmann::json::parse(line).contains("answer"));
}

TEST_CASE("rewinding cuts metrics and completions at one step and drops the summary") {
    TempFolder folder;
    RunFolder run(folder.path(), OpenMode::fresh);
    write_file(run.metrics_path(), "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n");
    write_file(run.completions_path(), "{\"step\": 2}\n{\"step\": 3}\n");
    write_file(run.file("summary.json"), "{}\n");
    run.rewind_to(2);
    CHECK(fp8rl::test::read_text(run.metrics_path()) == "{\"step\": 1}\n{\"step\": 2}\n");
    CHECK(fp8rl::test::read_text(run.completions_path()) == "{\"step\": 2}\n");
    CHECK(!fs::exists(run.file("summary.json")));
}
