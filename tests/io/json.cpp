// JSON values and lines, and files: errors name source, line and key path; hostile input ends in a message.
#include "io/json.h"

#include <cmath>
#include <limits>

#include "contains.h"
#include "core/error.h"
#include "io/file.h"
#include "io/jsonl.h"
#include "scratch.h"
#include "test.h"

using namespace fp8rl;
using fp8rl::test::Contains;
using fp8rl::test::read_text;
using fp8rl::test::Scratch;

TEST_CASE("a JSON text becomes values of seven kinds, objects in their order") {
    Json j = Json::parse(
        R"({"z": null, "b": true, "i": -7, "x": 1.5e3, "s": "a\u00e9\n", "a": [1, [2]], "o": {}})", "t");
    CHECK(j.size() == 7);
    CHECK(j.members()[0].first == "z");
    CHECK(j["z"].is_null());
    CHECK(j["b"].as_bool());
    CHECK(j["i"].as_integer() == -7);
    CHECK(j["i"].as_number() == -7.0);
    CHECK(j["x"].as_integer() == 1500);
    CHECK(j["s"].as_string() == "a\xC3\xA9\n");
    CHECK(j["a"][1][0].as_integer() == 2);
    CHECK(j["o"].size() == 0);
    CHECK(j.find("none") == nullptr);
    CHECK_FALSE(j.has("z"));
    CHECK(j.integer_or("z", 3) == 3);
    CHECK(j.number_or("x", 3) == 1500);
    CHECK(j.string_or("none", "d") == "d");
    CHECK(j.bool_or("b", false));
    CHECK(Json::parse("18446744073709551615", "t").as_number() == 18446744073709551615.0);
}

TEST_CASE("a wrong kind or a missing key is refused with source and path") {
    Json j = Json::parse(R"({"rope_scaling": {"factor": "8"}, "layers": [{"n": 1.5}]})", "config.json");
    CHECK_THROWS_WITH(j["rope_scaling"]["factor"].as_number(),
                      "config.json: rope_scaling.factor: a number is needed, found a string");
    CHECK_THROWS_WITH(j["layers"][0]["n"].as_integer(),
                      "config.json: layers[0].n: an integer is needed, found a number");
    CHECK_THROWS_WITH(j["layers"][1], "config.json: layers: element 1 of 1");
    CHECK_THROWS_WITH(j["rope_scaling"]["facter"],
                      "config.json: rope_scaling: the key \"facter\" is missing (there is \"factor\")");
    CHECK_THROWS_WITH(j.as_string(), "config.json: a string is needed, found an object");
    CHECK_THROWS_WITH(j.bool_or("layers", true), Contains("layers: true or false is needed"));
    CHECK_THROWS_WITH(Json(5).as_string(), "json: a string is needed, found an integer");
}

TEST_CASE("what is not JSON is refused with its line") {
    auto refusal = [](std::string_view text) {
        try {
            Json::parse(text, "f.json");
        } catch (const Error& e) {
            CHECK(e.exit_code() == 2);
            return std::string(e.what());
        }
        return std::string("read");
    };
    CHECK_THAT(refusal("{\n \"a\": 1,\n \"b\": }\n"), Contains("f.json:3: not JSON"));
    CHECK_THAT(refusal(""), Contains("f.json:1: not JSON"));
    CHECK_THAT(refusal("{} x"), Contains("f.json:1"));
    CHECK_THAT(refusal("\"\xFF\""), Contains("not JSON"));
    CHECK_THAT(refusal("[1, NaN]"), Contains("not JSON"));
    CHECK_THAT(refusal("[1e999]"), Contains("not JSON"));
    CHECK_THAT(refusal("{\"a\": 1, \"a\": 2}"), Contains("the key \"a\" stands there twice"));
    CHECK_THAT(refusal(std::string(1000000, '[')), Contains("nested more than 100 levels"));
    std::string deep;
    for (int i = 0; i < 200; ++i) deep += "{\"a\":";
    CHECK_THAT(refusal(deep), Contains("nested more than 100 levels"));
    CHECK(refusal(std::string(100, '[') + std::string(100, ']')) == "read");
}

TEST_CASE("values are written so that they read back the same") {
    Json j = Json::object();
    j.set("s", "q\" \\ \n \x01 \xC3\xA9")
        .set("n", int64_t{1} << 60)
        .set("x", 0.1)
        .set("whole", 3.0)
        .set("b", false);
    j.set("a", Json::array({1, Json(), "x"})).set("e", Json::object());
    j.set("x", 1e-300);
    CHECK(Json::parse(j.dump(), "t") == j);
    CHECK(Json::parse(j.dump(2), "t") == j);
    CHECK(j["whole"].dump() == "3.0");
    CHECK(Json::array({1, 2}).dump() == "[1, 2]");
    CHECK(Json(std::numeric_limits<double>::infinity()).dump() == "null");
    CHECK(Json("\xFF|\xE2\x82").dump() == "\"\xEF\xBF\xBD|\xEF\xBF\xBD\"");
    CHECK(Json(0.1 + 0.2).dump() == "0.30000000000000004");
    Json list;
    list.push(1).push("a");
    CHECK(list.dump() == "[1, \"a\"]");
    CHECK_THROWS_AS(list.set("k", 1), Error);
}

TEST_CASE("JSON lines name the line of what is wrong") {
    auto values = parse_json_lines("{\"a\": 1}\n\n  \r\n[2]\n\"x\"", "f");
    REQUIRE(values.size() == 3);
    CHECK(values[1][0].as_integer() == 2);
    CHECK_THROWS_WITH(parse_json_lines("1\n{\"a\": }\n", "rewards.jsonl"),
                      Contains("rewards.jsonl:2: not JSON"));
    auto rows = parse_json_lines("{\"a\": 1}\n\n{\"a\": \"x\"}", "rewards.jsonl");
    CHECK_THROWS_WITH(rows[1]["a"].as_number(), "rewards.jsonl:3: a: a number is needed, found a string");
    std::vector<int64_t> lines;
    for_each_json_line("1\n\n2", "f", [&](Json&&, int64_t line) { lines.push_back(line); });
    CHECK(lines == std::vector<int64_t>{1, 3});
}

TEST_CASE("lines are appended whole and read back") {
    Scratch folder;
    const std::string path = folder.path("a.jsonl");
    JsonlWriter(path).write(Json::object().set("n", 1));
    JsonlWriter second(path);
    second.write(Json::object().set("s", "two\nlines"));
    second.sync();
    second.close();
    CHECK(read_text(path) == "{\"n\": 1}\n{\"s\": \"two\\nlines\"}\n");
    CHECK(read_json_lines(path).size() == 2);
    CHECK_THROWS_AS(JsonlWriter(path).write_line("a\nb"), Error);
    JsonlWriter(path, OutputFile::Mode::create).write(5);
    CHECK(read_text(path) == "5\n");
}

TEST_CASE("files: a missing one, a folder and a full disk are errors that name the path") {
    Scratch folder;
    CHECK_THROWS_WITH(Json::parse_file(folder.path("no.json")),
                      Contains("no.json: cannot be opened: No such file"));
    CHECK_THROWS_WITH(read_text_file(folder.path("")), Contains("is not a regular file"));
    CHECK_THROWS_WITH(OutputFile(folder.path("no/such/a")), Contains("no/such/a: cannot be written"));
    {
        OutputFile empty(folder.path("empty"));
        empty.close();
    }
    CHECK(read_text_file(folder.path("empty")).empty());
    if (std::ifstream("/dev/full").good()) {
        OutputFile full("/dev/full");
        CHECK_THROWS_WITH(full.write("12345"),
                          "/dev/full: write failed: No space left on device (0 bytes written, 5 missing)");
    }
    sync_folder(folder.path(""));
    CHECK_THROWS_AS(sync_folder(folder.path("no")), Error);
}
