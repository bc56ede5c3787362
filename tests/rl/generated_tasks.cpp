// Tasks that make up their problems: purity, disjoint sets, solutions that earn the reward, and refusals.
#include <algorithm>
#include <set>

#include "refused.h"
#include "rl/generated.h"
#include "rl/number.h"
#include "rl/task.h"

using namespace fp8rl;
using namespace fp8rl::rl;
using test::refusal;
using test::says;

namespace {

TaskOptions options(const std::string& name) {
    TaskOptions o;
    o.name = name;
    return o;
}

double reward(Task& task, const Problem& problem, std::string_view text, bool finished = true) {
    Completion c{&problem, text, finished};
    return task.rewards({&c, 1}).at(0);
}

std::string asked(const Problem& p) { return p.messages.empty() ? p.prompt : p.messages.back().content; }

std::vector<TaskOptions> variants() {
    std::vector<TaskOptions> all;
    all.push_back(options("sort"));
    for (bool chat : {false, true}) {
        TaskOptions o = options("arithmetic");
        o.chat = chat;
        all.push_back(o);
        o.operations = {Operation::multiply, Operation::add, Operation::subtract};
        o.operands = 3;
        all.push_back(o);
        o.operations = {Operation::divide};
        o.operands = 2;
        all.push_back(o);
    }
    for (int steps : {0, 1, 2}) {
        TaskOptions o = options("word_problems");
        o.chat = true;
        o.steps = steps;
        all.push_back(o);
    }
    return all;
}

}  // namespace

TEST_CASE("A problem is a pure function of seed and index; solutions earn the reward", "[task]") {
    for (TaskOptions o : variants()) {
        INFO(o.name);
        auto task = make_task(o), again = make_task(o);
        o.seed = 2;
        auto other = make_task(o);
        int differ = 0;
        for (uint64_t i : {uint64_t{0}, uint64_t{1}, uint64_t{77}, uint64_t{1} << 40}) {
            Problem p = task->train(i), q = again->train(i);
            CHECK(p.id == q.id);
            CHECK(asked(p) == asked(q));
            CHECK(reward(*task, p, p.solution) == 1);
            CHECK(reward(*task, p, p.solution, false) == 0);  // cut off
            CHECK(reward(*task, p, "no answer here") == 0);
            CHECK(task->final_answer(p.solution) == p.answer);
            differ += asked(p) != asked(other->train(i));
        }
        CHECK(differ >= 3);
        for (int64_t i = 0; i < task->validation_size(); i += 37) {
            Problem p = task->validation(i);
            CHECK(asked(p) == asked(other->validation(i)));  // the same for every seed
            CHECK(reward(*task, p, p.solution) == 1);
        }
    }
}

TEST_CASE("No validation problem is ever trained on, and none comes twice", "[task]") {
    for (const TaskOptions& o : variants()) {
        auto task = make_task(o);
        std::set<std::string> held_out;
        for (int64_t i = 0; i < task->validation_size(); ++i) held_out.insert(asked(task->validation(i)));
        CHECK(static_cast<int64_t>(held_out.size()) == o.validation_size);
        std::set<std::string> trained;
        for (uint64_t i = 0; i < 3000; ++i) trained.insert(asked(task->train(i)));
        INFO(o.name);
        CHECK(trained.size() > 500);
        for (const auto& question : held_out) CHECK(trained.count(question) == 0);
    }
}

TEST_CASE("sort: the prompt is digits and >, the answer the digits ascending, exactly", "[task]") {
    auto task = make_task(options("sort"));
    for (uint64_t i = 0; i < 50; ++i) {
        Problem p = task->train(i);
        REQUIRE(p.prompt.size() == 6);
        CHECK(p.prompt.back() == '>');
        std::string digits = p.prompt.substr(0, 5);
        std::sort(digits.begin(), digits.end());
        CHECK(p.answer == digits);
        CHECK(p.solution == digits);
        CHECK(reward(*task, p, digits + " ") == 0);
        CHECK(reward(*task, p, digits.substr(0, 4)) == 0);
    }
    TaskOptions long_ones = options("sort");
    long_ones.length = 12;
    CHECK(make_task(long_ones)->train(0).prompt.size() == 13);
}

TEST_CASE("arithmetic: raw and as a question, with results that are right", "[task]") {
    // The value is computed again from the text, by another way: products first, then sums.
    auto value = [](const std::string& text) {
        long long sum = 0, product = 0;
        char pending = '+';
        size_t i = 0;
        auto number = [&] {
            long long n = 0;
            while (i < text.size() && text[i] >= '0' && text[i] <= '9') n = n * 10 + (text[i++] - '0');
            return n;
        };
        product = number();
        while (i < text.size() && text[i] != '=' && text[i] != '?') {
            char op = text[i++];
            long long n = number();
            if (op == '*')
                product *= n;
            else if (op == '/') {
                CHECK(product % n == 0);
                product /= n;
            } else {
                sum += pending == '+' ? product : -product;
                pending = op, product = n;
            }
        }
        return sum + (pending == '+' ? product : -product);
    };
    for (const TaskOptions& o : variants()) {
        if (o.name != "arithmetic") continue;
        auto task = make_task(o);
        for (uint64_t i = 0; i < 200; ++i) {
            Problem p = task->train(i);
            std::string text = asked(p);
            if (o.chat) {
                CHECK(text.substr(0, 8) == "What is ");
                CHECK(text.back() == '?');
                text = text.substr(8);
                text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
            } else {
                CHECK(text.back() == '=');
                CHECK(text.find(' ') == std::string::npos);
            }
            INFO(text);
            CHECK(std::to_string(value(text)) == p.answer);
            if (o.operands == 2) CHECK(p.answer[0] != '-');
        }
    }
}

TEST_CASE("arithmetic and word problems read the last number of the completion", "[task]") {
    auto task = make_task(options("arithmetic"));
    Problem p = task->train(0);
    p.answer = "1250";
    CHECK(reward(*task, p, "First 12, then 1,250.") == 1);
    CHECK(reward(*task, p, "1250.0") == 1);
    CHECK(reward(*task, p, "1250 or 7") == 0);
    CHECK(reward(*task, p, "-1250") == 0);
    TaskOptions lenient = options("arithmetic");
    lenient.reward_truncated = true;
    CHECK(reward(*make_task(lenient), p, "1250", false) == 1);
}

TEST_CASE("word problems: every template is filled and its solution ends in the answer", "[task]") {
    for (int digits : {1, 3}) {
        TaskOptions o = options("word_problems");
        o.digits = digits;
        o.validation_size = 50;
        auto task = make_task(o);
        for (uint64_t i = 0; i < 500; ++i) {
            Problem p = task->train(i);
            INFO(p.prompt << " | " << p.solution);
            CHECK(p.prompt.find('{') == std::string::npos);
            CHECK(p.prompt.back() == '?');
            CHECK(p.answer[0] != '-');
            CHECK(p.solution.find(". The answer is " + p.answer + ".") != std::string::npos);
        }
    }
}

TEST_CASE("A chat has the system message when there is one, and the question in its place", "[task]") {
    TaskOptions o = options("arithmetic");
    o.chat = true;
    o.system_prompt = "Answer with a number.";
    o.prompt = "Compute. {question} Be brief.";
    Problem p = make_task(o)->train(3);
    CHECK(p.prompt.empty());
    REQUIRE(p.messages.size() == 2);
    CHECK(p.messages[0].role == "system");
    CHECK(p.messages[0].content == "Answer with a number.");
    CHECK(p.messages[1].role == "user");
    CHECK(p.messages[1].content.substr(0, 17) == "Compute. What is ");
    CHECK(says(p.messages[1].content, "? Be brief."));
}

TEST_CASE("Options that cannot work are refused by their key", "[task]") {
    auto refused = [](auto change) {
        TaskOptions o = options("arithmetic");
        change(o);
        return refusal([&] { make_task(o); });
    };
    CHECK(says(refused([](auto& o) { o.name = "chess"; }), "sort, arithmetic, word_problems, gsm8k"));
    CHECK(says(refused([](auto& o) { o.prompt = "no place"; }), "task.prompt"));
    CHECK(says(refused([](auto& o) { o.operands = 1; }), "task.operands"));
    CHECK(says(refused([](auto& o) { o.digits = 0; }), "task.digits"));
    CHECK(says(refused([](auto& o) { o.digits = 9, o.operands = 3; }), "task.digits"));
    CHECK(says(refused([](auto& o) { o.operations = {}; }), "task.operations"));
    CHECK(says(refused([](auto& o) { o.operations = {Operation::divide}, o.operands = 3; }), "divide"));
    CHECK(says(refused([](auto& o) { o.validation_size = -1; }), "task.validation_size"));
    CHECK(says(refused([](auto& o) { o.digits = 1, o.validation_size = 500; }), "task.validation_size: 500"));
    CHECK(says(refused([](auto& o) { o.name = "sort", o.length = 1; }), "task.length"));
    CHECK(says(refused([](auto& o) { o.name = "word_problems", o.steps = 3; }), "task.steps"));
}

TEST_CASE("The hash that splits the problems never changes", "[task]") {
    // FNV-1a of "a" is 0xaf63dc4c8601ec8c (published test vector); then h ^= h >> 32, h *=
    // 0xd6e8feb86659fd93, h ^= h >> 32, computed with Python integers.
    CHECK(question_hash("a") == 0x2ef7d1316eb86f71u);
}
