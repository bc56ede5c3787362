// Chat templates: equal to jinja2's output (tests/data/chat_templates.json, made by
// scripts/make_chat_template_goldens.py; field case f08), and refused by line where they are not understood.
#include "io/chat_template.h"

#include "contains.h"
#include "core/error.h"
#include "test.h"

using namespace fp8rl;
using fp8rl::test::Contains;
using fp8rl::test::read_json;

static Json to_json(const nlohmann::json& j) { return Json::parse(j.dump(), "test"); }

static std::string refusal(const std::string& text, const Json& messages = Json::array()) {
    try {
        ChatTemplate t(text, "t.jinja");
        t.render(messages, true);
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        return e.what();
    }
    return "rendered";
}

// The error of reading alone: nothing was rendered yet.
static std::string refused_when_read(const std::string& text) {
    try {
        ChatTemplate t(text, "t.jinja");
    } catch (const Error& e) {
        return e.what();
    }
    return "read";
}

TEST_CASE("f08: block trimming, and message text is never a template") {
    auto f = read_json("f08_chat_template.json");
    ChatTemplate t(f["input"]["chat_template"].get<std::string>(), "f08");
    Json messages = to_json(f["input"]["messages"]);
    Json variables = Json::object().set("eos_token", f["input"]["eos_token"].get<std::string>());
    CHECK(t.render(messages, true, variables) ==
          f["expect"]["add_generation_prompt_true"].get<std::string>());
    CHECK(t.render(messages, false, variables) ==
          f["expect"]["add_generation_prompt_false"].get<std::string>());
}

// Read with io/json, which keeps the order of keys (tojson shows it).
static Json goldens() { return Json::parse_file(fp8rl::test::data_path("chat_templates.json")); }

TEST_CASE("templates render as jinja2 renders them") {
    const Json golden = goldens();
    REQUIRE(golden["cases"].size() == 31);
    for (const Json& c : golden["cases"].items()) {
        INFO(c["name"].as_string());
        ChatTemplate t(c["template"].as_string(), c["name"].as_string());
        CHECK(t.render(c["messages"], false, c["variables"]) == c["without_prompt"].as_string());
        CHECK(t.render(c["messages"], true, c["variables"]) == c["with_prompt"].as_string());
    }
}

TEST_CASE("what jinja2 refuses to render is refused with the line") {
    const Json golden = goldens();
    REQUIRE(golden["errors"].size() == 8);
    for (const Json& c : golden["errors"].items()) {
        INFO(c["name"].as_string());
        const std::string message = refusal(c["template"].as_string(), c["messages"]);
        CHECK(message.rfind("t.jinja:", 0) == 0);
        CHECK(message.find(c["words"].as_string()) != std::string::npos);
    }
    CHECK(refusal("\n\n{{ raise_exception('no') }}") == "t.jinja:3: no");
}

TEST_CASE("what is not supported is refused by line before anything is rendered") {
    CHECK_THAT(refused_when_read("a\n{% macro x() %}{% endmacro %}"),
               Contains("t.jinja:2: ") && Contains("macro"));
    CHECK_THAT(refused_when_read("a\n\n{{ x | frobnicate }}"),
               Contains("t.jinja:3: the filter \"frobnicate\""));
    CHECK_THAT(refused_when_read("{{ x is blue }}"), Contains("the test \"blue\""));
    CHECK_THAT(refused_when_read("{{ x.explode() }}"), Contains("the method \"explode\""));
    CHECK_THAT(refused_when_read("{{ strftime_now('%d') }}"), Contains("the function \"strftime_now\""));
    CHECK_THAT(refused_when_read("{{ loop.cycle('a', 'b') }}"), Contains("loop.cycle"));
    CHECK_THAT(refused_when_read("{{ 'x' | trim(a=1) }}"), Contains("the argument a is not supported"));
    CHECK_THAT(refused_when_read("{{ 'x'.replace('a') }}"), Contains("the argument new is missing"));
    CHECK_THAT(refused_when_read("{{ 2 ** 3 }}"), Contains("**"));
    CHECK_THAT(refused_when_read("{{ 1 \n + }}"), Contains("t.jinja:2: an expression is expected, found }}"));
    CHECK_THAT(refused_when_read("x\n{% if a %}\n"), Contains("has no endif"));
    CHECK_THAT(refused_when_read("x\n{{ 'abc }}"), Contains("t.jinja:2: the string has no end"));
    CHECK_THAT(refused_when_read("{% for x in y recursive %}{% endfor %}"), Contains("recursive"));
    CHECK_THAT(refused_when_read("{% endfor %}"), Contains("endfor"));
    CHECK_THAT(refused_when_read("{{ a ; b }}"), Contains("unexpected character \";\""));
    CHECK_THAT(refused_when_read("{# never closed"), Contains("the comment has no end"));
    CHECK_THAT(refused_when_read("{% raw %} {{"), Contains("raw has no endraw"));
    CHECK_THAT(refused_when_read("{% set a, b = 1 %}"), Contains("several variables"));
    CHECK_THAT(refused_when_read("{{ f(1)(2) }}"), Contains("the function \"f\""));
}

TEST_CASE("a hostile template ends in a message") {
    CHECK_THAT(refusal("{% for a in range(100000) %}{% for b in range(100000) %}x{% endfor %}{% endfor %}"),
               Contains("too much work"));
    CHECK_THAT(refusal("{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s "
                       "%}{% endfor %}"),
               Contains("too much work"));
    CHECK_THAT(
        refusal(
            "{% set ns = namespace(l=[1]) %}{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}"),
        Contains("levels deep"));
    CHECK_THAT(
        refusal(
            "{% set ns = namespace(l=[1]) %}{% for i in range(90) %}{% set ns.l = [ns.l, ns.l] %}{% endfor %}"
            "{{ ns.l }}"),
        Contains("too much work"));
    CHECK_THAT(refusal("{% set ns = namespace(l=1) %}{% set ns.l = ns %}"), Contains("inside a namespace"));
    CHECK_THAT(refusal("{{ " + std::string(100000, '(') + "1" + std::string(100000, ')') + " }}"),
               Contains("levels deep"));
    CHECK_THAT(refusal("{{ " + std::string(100000, '-') + "1 }}"), Contains("levels deep"));
    std::string chain = "{{ 1";
    for (int i = 0; i < 100000; ++i) chain += "+1";
    CHECK_THAT(refusal(chain + " }}"), Contains("levels"));
    std::string nested;
    for (int i = 0; i < 100000; ++i) nested += "{% if 1 %}";
    CHECK_THAT(refusal(nested), Contains("levels deep"));
    CHECK_THAT(refusal("{{ 9223372036854775807 + 1 }}"), Contains("overflow"));
    CHECK_THAT(refusal("{{ 'x' * 9999999999 }}"), Contains("too much work"));
}

TEST_CASE("messages must be an array of objects") {
    ChatTemplate t("{{ messages }}", "t");
    CHECK_THROWS_WITH(t.render(Json::parse("[1]", "m"), true), Contains("an object is needed"));
    CHECK_THROWS_WITH(t.render(Json::parse("{}", "m"), true), Contains("an array is needed"));
}
