// Claims about scalars: f11, and every type of field at its edges.
#include "helpers.h"

using namespace fp8rl;
using namespace fp8rl::test;

// f11_scalars.yaml as {"optimizer.lr": "1e-6", ...}: two levels of "key: value  # comment".
static std::map<std::string, std::string> written_scalars() {
    std::map<std::string, std::string> found;
    std::istringstream in(read_text(data_path("f11_scalars.yaml")));
    std::string section;
    for (std::string line; std::getline(in, line);) {
        if (line.empty() || line[0] == '#') continue;
        if (auto comment = line.find(" #"); comment != std::string::npos) line.erase(comment);
        while (!line.empty() && line.back() == ' ') line.pop_back();
        const auto colon = line.find(':');
        if (line[0] != ' ')
            section = line.substr(0, colon);
        else
            found[section + "." + line.substr(2, colon - 2)] = line.substr(colon + 2);
    }
    return found;
}

TEST_CASE("f11: scalars are read by the type of their key") {
    auto f = written_scalars();
    REQUIRE(f.size() == 12);
    // The field case's example keys are ours, but for these.
    const std::map<std::string, std::string> ours = {{"run.name", "name"},
                                                     {"run.seed", "seed"},
                                                     {"run.note", "note"},
                                                     {"run.time_limit", "checkpoint.time_limit"}};
    std::vector<std::string> settings;
    for (const auto& [key, value] : f) {
        if (key == "rollout.greedy") continue;
        settings.push_back((ours.count(key) ? ours.at(key) : key) + "=" + value);
    }
    const Recipe r = recipe_of("", settings);
    CHECK(r.optimizer.lr == 1e-6);
    CHECK(r.optimizer.eps == 1e-8);
    CHECK(r.optimizer.weight_decay == 0.1);
    CHECK(r.optimizer.beta1 == 0.9);
    CHECK(r.optimizer.beta2 == 0.95);
    CHECK(r.rollout.temperature == 1.0);
    CHECK(r.rollout.stop == std::vector<std::string>{"no", "off", "1e3", "1_0"});
    CHECK(r.rollout.max_new_tokens == 1000);
    CHECK(r.name == "0123");
    CHECK(r.seed == 10);
    CHECK(r.checkpoint.time_limit == 5400.0);
    CHECK(!r.note);
    CHECK(has(refusal("", {"rollout.ignore_eos=" + f.at("rollout.greedy")}),
              {"rollout.ignore_eos", "write false"}));
}

TEST_CASE("integers take any whole numeral and nothing else") {
    auto tokens = [](const char* v) { return recipe_of("", {std::string("rollout.max_new_tokens=") + v}); };
    CHECK(tokens("2e2").rollout.max_new_tokens == 200);
    CHECK(tokens("+7").rollout.max_new_tokens == 7);
    for (const char* bad : {"2.5", "1_0", "0x10", "ten", "", "~", "[1]", "{a: 1}", "1e300", "nan",
                            "12 tokens", "0", "-1", "99999999999999999999"})
        CHECK(has(refusal("", {std::string("rollout.max_new_tokens=") + bad}),
                  {"rollout.max_new_tokens", "integer"}));
    CHECK(recipe_of("seed: 9223372036854775807").seed == 9223372036854775807u);
}

TEST_CASE("numbers must be finite and in range") {
    for (const char* bad : {".nan", ".inf", "-.INF", "nan", "Infinity", "+.inf"})
        CHECK(has(refusal("", {std::string("optimizer.lr=") + bad}), {"optimizer.lr", "finite"}));
    for (const char* bad : {"-1e-6", "1e-6x", "1,5", "1e999", "true", "--1"})
        CHECK(has(refusal("", {std::string("optimizer.lr=") + bad}), {"optimizer.lr", "number"}));
    CHECK(has(refusal("rollout: {top_p: 0}"), {"[1e-6, 1]", "out of range"}));
    CHECK(has(refusal("rollout: {temperature: 0}"), {"[1e-6, 1e+6]"}));
    CHECK(has(refusal("optimizer: {betas: [0.9, 1]}"), {"[0, 1)"}));
    CHECK(has(refusal("optimizer: {betas: [0.9]}"), {"two numbers"}));
    CHECK(has(refusal("optimizer: {betas: 0.9}"), {"list"}));
    CHECK(recipe_of("algorithm: {clip: 0.3}").algorithm.clip_high == 0.3);
    CHECK(recipe_of("algorithm: {clip: [0.1, 0.3]}").algorithm.clip_low == 0.1);
}

TEST_CASE("booleans are true and false; other words get a hint") {
    CHECK(recipe_of("rollout: {ignore_eos: true}").rollout.ignore_eos);
    for (const char* yes : {"yes", "Yes", "on", "ON", "y", "True", "1"})
        CHECK(has(refusal("", {std::string("rollout.ignore_eos=") + yes}), {"write true"}));
    for (const char* no : {"no", "off", "n", "FALSE", "0"})
        CHECK(has(refusal("", {std::string("rollout.ignore_eos=") + no}), {"write false"}));
    CHECK(has(refusal("rollout: {ignore_eos: maybe}"), {"true or false"}));
}

TEST_CASE("texts keep what is written") {
    const Recipe r =
        recipe_of("name: 1.10\nnote: \"~\"\ntask:\n  system_prompt: |\n    Be brief.\n    Yes\n");
    CHECK(r.name == "1.10");
    CHECK(r.note == "~");
    CHECK(r.task.system_prompt == "Be brief.\nYes\n");
    CHECK(has(refusal("name:\n"), {"name", "a text is needed"}));
    CHECK(has(refusal("name: \"\"\n"), {"name", "empty"}));
    CHECK(has(refusal("name: [a]\n"), {"name", "a list"}));
    CHECK(has(refusal("rollout: {stop: foo}"), {"rollout.stop", "a list is needed"}));
    CHECK(has(refusal("rollout: {stop: [null]}"), {"rollout.stop", "a text is needed"}));
}

TEST_CASE("durations take seconds, units and clock form") {
    auto limit = [](const char* v) {
        return recipe_of("checkpoint: {before_time_limit: 1s}", {std::string("checkpoint.time_limit=") + v})
            .checkpoint.time_limit;
    };
    CHECK(limit("90s") == 90.0);
    CHECK(limit("90") == 90.0);
    CHECK(limit("5m") == 300.0);
    CHECK(limit("1h30m") == 5400.0);
    CHECK(limit("1.5h") == 5400.0);
    CHECK(limit("2d") == 172800.0);
    CHECK(limit("1:30:00") == 5400.0);
    CHECK(limit("5:00") == 300.0);
    CHECK(!limit("none"));
    CHECK(!limit("~"));
    for (const char* bad :
         {"5 minutes", "m", "1:60:00", "1:2:3:4", "-5m", "5m1h", "1:", "nan", "soon", "5mm"})
        CHECK(has(refusal("", {std::string("checkpoint.time_limit=") + bad}),
                  {"checkpoint.time_limit", "duration"}));
}

TEST_CASE("bytes take binary and decimal units") {
    auto memory = [](const char* v) {
        return recipe_of("", {std::string("rollout.kv_memory=") + v}).rollout.kv_memory;
    };
    CHECK(memory("4GiB") == 4294967296);
    CHECK(memory("4 GiB") == 4294967296);
    CHECK(memory("0.5GiB") == 536870912);
    CHECK(memory("100MB") == 100000000);
    CHECK(memory("1e9") == 1000000000);
    CHECK(memory("12B") == 12);
    CHECK(!memory("auto"));
    for (const char* bad : {"4 gigs", "GiB", "-1GiB", "0", "1e30TiB", "none", "4GiBB"})
        CHECK(has(refusal("", {std::string("rollout.kv_memory=") + bad}), {"rollout.kv_memory", "bytes"}));
}
