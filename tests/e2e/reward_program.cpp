// Rewards from an external program: a shell and sed suffice. A program that fails, lies or hangs ends the run
// with the reason.
#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

// A task of two-digit questions for a reward program that is this sed script.
struct Rewarded {
    Lab lab;
    Strings sets;
    explicit Rewarded(const std::string& shell, const std::string& timeout = "10s") {
        std::string lines;
        for (int i = 10; i < 60; ++i)
            lines +=
                "{\"question\": \"" + std::to_string(i) + "\", \"answer\": \"" + std::to_string(i) + "\"}\n";
        lab.scratch().write("lines.jsonl", lines);
        const std::string program = lab.scratch().write("reward.sh", shell);
        sets = {"task={name: command, train: " + lab.folder("lines.jsonl") +
                    ", validation_size: 4, command: {argv: [sh, " + program + "], timeout: " + timeout + "}}",
                "warmup.steps=0", "train.steps=3", "validation.every=0"};
    }
    void check_failure(const Strings& words) const {
        Result r = lab.train("run", sets);
        INFO(r.err);
        CHECK(r.code == 2);
        for (const auto& w : words) CHECK(r.said(w));
        CHECK_FALSE(lab.has("run", "summary.json"));
    }
};

// Answers every line with its id and a reward: 1 where the first byte of the completion is even ASCII, by
// pattern, so that groups differ.
const char* const by_sed =
    "sed -u -e 's/^{\"id\": *\\([0-9]*\\),.*\"completion\": *\"[0-7A-Pa-p].*/{\"id\": \\1, \"reward\": 1}/' "
    "-e t"
    " -e 's/^{\"id\": *\\([0-9]*\\),.*/{\"id\": \\1, \"reward\": 0.25}/'\n";

}  // namespace

TEST_CASE("a shell script rewards completions, and the run learns from it and resumes exactly") {
    Rewarded t(by_sed);
    Result r = t.lab.train("run", t.sets);
    INFO(r.err);
    REQUIRE(r.code == 0);
    auto rl = only(t.lab.metrics("run"), "rl");
    REQUIRE(rl.size() == 3);
    for (double reward : column(rl, "reward")) {
        CHECK(reward >= 0.25);
        CHECK(reward <= 1);
    }
    CHECK(sum(column(rl, "samples_trained")) > 0);
    for (const auto& c : json_lines(t.lab.file("run", "completions.jsonl")))
        CHECK((c.at("reward") == 1 || c.at("reward") == 0.25));
    Strings first = t.sets;
    first.push_back("train.steps=1");
    t.lab.trained("parts", first);
    t.lab.trained("parts", t.sets, {"--resume"});
    CHECK(t.lab.weights("parts") == t.lab.weights("run"));
}

TEST_CASE("a reward program that fails ends the run with the reason") {
    Rewarded("exit 7\n").check_failure({"sh", "exit code 7", "0 of"});
    Rewarded("head -n 1 >/dev/null; kill -9 $$\n").check_failure({"signal 9"});
    Rewarded("sed -u 's/.*/nonsense/'\n").check_failure({"output line 1", "nonsense"});
    Rewarded("sed -u 's/.*/{\"id\": 99999, \"reward\": 1}/'\n").check_failure({"id 99999"});
    Rewarded("sed -u 's/^{\"id\": *\\([0-9]*\\),.*/{\"id\": \\1, \"reward\": \"high\"}/'\n")
        .check_failure({"reward", "number"});
    Rewarded("sed -u 's/^{\"id\": *\\([0-9]*\\),.*/{\"id\": \\1, \"reward\": NaN}/'\n")
        .check_failure({"line 1"});
    Rewarded("sed -u 's/^{\"id\": *\\([0-9]*\\),.*/{\"id\": \\1}/'\n").check_failure({"reward"});
    Rewarded("exec sleep 60\n", "0.3s").check_failure({"time limit of 0.3 s", "task.command.timeout"});
    Rewarded missing("");
    missing.sets[0] = "task={name: command, train: " + missing.lab.folder("lines.jsonl") +
                      ", validation_size: 4, command: {argv: [/nowhere/reward]}}";
    missing.check_failure({"cannot start /nowhere/reward"});
}

TEST_CASE("a failing program leaves no process behind") {
    Rewarded t("echo $$ >&2; exec sleep 300\n", "0.2s");
    Result r = t.lab.train("run", t.sets);
    CHECK(r.code == 2);
    // The program's stderr is the run's own: its first line is the id of the process.
    std::istringstream in(r.err);
    long id = 0;
    for (std::string line; std::getline(in, line);)
        if (!line.empty() && line.find_first_not_of("0123456789") == std::string::npos) id = std::stol(line);
    REQUIRE(id > 0);
    CHECK_FALSE(std::ifstream("/proc/" + std::to_string(id) + "/cmdline").good());
}

}  // namespace fp8rl::test
