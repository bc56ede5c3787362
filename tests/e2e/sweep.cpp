// scripts/sweep.sh: a grid of values, a run folder each, one table.
#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

Result sweep(const Lab& lab, const Strings& more) {
    Options o;
    o.program = "bash";
    o.folder = lab.scratch().path();
    o.env = {{"FP8RL", FP8RL_BINARY}};
    Strings a = {std::string(FP8RL_SOURCE_DIR) + "/scripts/sweep.sh", "-o", lab.folder("out"), lab.recipe()};
    a.insert(a.end(), more.begin(), more.end());
    return run(a, o);
}

Strings lines_of(const std::string& text) {
    Strings out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
}

}  // namespace

TEST_CASE("a sweep over two values makes two runs and a table, and does not run them again") {
    Lab lab;
    const Strings grid = {"--", "seed=1,2", "warmup.steps=20"};
    Result r = sweep(lab, grid);
    INFO(r.err);
    REQUIRE(r.code == 0);
    auto table = lines_of(r.out);
    REQUIRE(table.size() == 3);
    for (const char* word : {"run", "exit", "first", "last", "best", "mismatch", "seconds"})
        CHECK(table[0].find(word) != std::string::npos);
    for (int seed : {1, 2}) {
        const std::string name = "lab_seed=" + std::to_string(seed) + "_steps=20";
        INFO(name);
        CHECK(table[static_cast<size_t>(seed)].find(name + " ") == 0);
        CHECK(lab.has("out/" + name, "summary.json"));
        CHECK(lab.metrics("out/" + name).size() == 20 + lab_steps + 1);
    }
    CHECK(lab.weights("out/lab_seed=1_steps=20") != lab.weights("out/lab_seed=2_steps=20"));

    Result again = sweep(lab, grid);
    CHECK(again.code == 0);
    CHECK(again.out == r.out);
    CHECK_FALSE(again.said("=="));
}

TEST_CASE("a sweep checks every combination before the first run, and names runs that fail") {
    Lab lab;
    Result bad = sweep(lab, {"--", "optimizer.lr=1e-3,fast"});
    CHECK(bad.code == 2);
    CHECK(bad.said("optimizer.lr"));
    CHECK_FALSE(lab.has("out", ""));

    Result failing = sweep(lab, {"--", "train.micro_tokens=5,256"});
    CHECK(failing.code == 1);
    auto table = lines_of(failing.out);
    REQUIRE(table.size() == 3);
    CHECK(table[1].find("failed") != std::string::npos);
    CHECK(table[2].find("failed") == std::string::npos);
    CHECK(failing.said("train.micro_tokens"));
}

}  // namespace fp8rl::test
