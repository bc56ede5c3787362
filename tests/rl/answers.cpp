// Reading answers: numbers in free text, boxes (f13), and equality of mathematical answers.
#include "refused.h"
#include "rl/boxed.h"
#include "rl/number.h"

using namespace fp8rl;
using namespace fp8rl::rl;

TEST_CASE("Numbers have one canonical text", "[number]") {
    for (auto [written, canonical] :
         {std::pair{"72", "72"},
          {"1,250", "1250"},
          {"$1,250.50", "1250.5"},
          {"-$5", "-5"},
          {"$-5", "-5"},
          {"\u22125", "-5"},
          {"+7", "7"},
          {" 42. ", "42"},
          {"007", "7"},
          {"3.0", "3"},
          {".50", "0.5"},
          {"-0.0", "0"},
          {"0", "0"},
          {"1{,}250", "1250"},
          {"1,234,567", "1234567"},
          {"123456789012345678901234567890.10", "123456789012345678901234567890.1"}}) {
        INFO(written);
        CHECK(canonical_number(written) == canonical);
    }
    for (const char* not_one :
         {"", "x", "12 apples", "1,25", "12,3456", "1.2.3", "--5", "3/4", ".", "-", "1e5"}) {
        INFO(not_one);
        CHECK(canonical_number(not_one) == "");
    }
}

TEST_CASE("The last number of a text, with signs that belong to it", "[number]") {
    for (auto [text, last] : {std::pair{"The answer is 46.", "46"},
                              {"12 + 34 = 46", "46"},
                              {"12 - 34 = -22", "-22"},
                              {"10-5", "5"},
                              {"10 - 5", "5"},
                              {"x = -5", "-5"},
                              {"(-3)", "-3"},
                              {"it costs -$1,250.00!", "-1250"},
                              {"1,250 style", "1250"},
                              {"between 3 and 4,5", "5"},
                              {"pages 1,2,3", "3"},
                              {"12.", "12"},
                              {"1.2.3", "0.3"},
                              {"$5.", "5"},
                              {"50%", "50"},
                              {"**18**", "18"},
                              {"No number", ""},
                              {"", ""}}) {
        INFO(text);
        CHECK(last_number(text) == last);
    }
    CHECK(first_number(" -5 and 6") == "-5");
    CHECK(first_number("none") == "");
}

TEST_CASE("f13: extraction and reward of boxed answers", "[boxed][f13]") {
    auto file = test::read_json("f13_boxed_answers.json");
    for (auto& item : file["items"]) {
        std::string completion = item["completion"], gold = item["gold"];
        INFO(completion << " against " << gold);
        auto box = last_box(completion);
        CHECK(box.has_value() == !item["extracted"].is_null());
        if (box) CHECK(*box == item["extracted"].get<std::string>());
        int reward = box && canonical_math(*box) == canonical_math(gold);
        CHECK(reward == item["reward"]);
    }
}

TEST_CASE("The last complete box counts, whatever braces surround it", "[boxed]") {
    CHECK(last_box("\\boxed{7} and \\boxed{8") == "7");
    CHECK(last_box("\\boxed{\\boxed{7}}") == "7");
    CHECK(last_box("} { \\boxed{1} } \\boxed{2}") == "2");
    CHECK(last_box("\\boxed{\\{1\\}}") == "\\{1\\}");
    CHECK(last_box("\\fbox{3}") == "3");
    CHECK(!last_box("\\boxed 7"));
    CHECK(!last_box("\\boxed"));
    CHECK(!last_box("boxed{7}"));
    CHECK(!last_box("\\boxed x{7}"));
    CHECK(!last_box(""));
    CHECK(last_box("\\") == std::nullopt);
}

TEST_CASE("Equal answers have equal canonical forms", "[boxed]") {
    for (auto [a, b] : {std::pair{"\\tfrac12", "0.50"},
                        {"\\frac{-3}{4}", "-\\frac{3}{4}"},
                        {"\\frac{6}{8}", "3/4"},
                        {"2\\frac{1}{3}", "\\frac{7}{3}"},
                        {"-2\\frac13", "-7/3"},
                        {"\\frac{1.5}{2}", ".75"},
                        {"\\{2,1\\}", "\\{1, 2, 2\\}"},
                        {"\\left( 1, \\frac12 \\right)", "(1,0.5)"},
                        {"3, -2", "-2,3"},
                        {"x=5", "5"},
                        {"12\\text{ cm}", "12"},
                        {"\\text{Evelyn}", "Evelyn"},
                        {"\\mathrm{(B)}", "(B)"},
                        {"90^\\circ", "90"},
                        {"50\\%", "50"},
                        {"\\sqrt2", "\\sqrt{2}"},
                        {"\\frac{\\pi}2", "\\dfrac{\\pi}{2}"},
                        {"10\\,000", "10,000"},
                        {"\u22123", "-3"},
                        {"[0, \\infty)", "[0,\\infty)"}}) {
        INFO(a << " = " << b);
        CHECK(canonical_math(a) == canonical_math(b));
    }
    for (auto [a, b] : {std::pair{"(1,2)", "(2,1)"},
                        {"(0,1)", "[0,1]"},
                        {"\\frac12", "\\frac13"},
                        {"1/0", "1"},
                        {"x", "X"},
                        {"\\leftarrow", "arrow"},
                        {"1,2", "12"},
                        {"\\{1\\}", "1"}}) {
        INFO(a << " is not " << b);
        CHECK(canonical_math(a) != canonical_math(b));
    }
}

TEST_CASE("Strange answers stay text and cost nothing", "[boxed]") {
    CHECK(canonical_math("\\frac{1}{0}") == "\\frac{1}{0}");
    CHECK(canonical_math("99999999999999999999/3") == "99999999999999999999/3");
    CHECK(canonical_math("\\frac") == "\\frac");
    CHECK(canonical_math("\\frac{1}{2") == "\\frac{1}{2");
    CHECK(canonical_math("\\text{open") == "\\text{open");
    CHECK(canonical_math(") (") == ")(");
    CHECK(canonical_math("") == "");
    CHECK(canonical_math(" . ") == "");
    // Deep nesting and endless boxes: no deep recursion, no quadratic search.
    std::string deep(100000, '(');
    deep += std::string(100000, ')');
    CHECK(!canonical_math(deep).empty());
    std::string boxes;
    for (int i = 0; i < 20000; ++i) boxes += "\\boxed{";
    CHECK(!last_box(boxes));
}
