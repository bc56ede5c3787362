// Tasks over files of JSON lines: reading, splitting, rewards of gsm8k, exact match and boxed math.
#include <cstdio>
#include <filesystem>
#include <set>

#include "refused.h"
#include "rl/task.h"

using namespace fp8rl;
using namespace fp8rl::rl;
using test::refusal;
using test::says;

namespace {

// A file that goes with the test.
class TempFile {
  public:
    TempFile(const std::string& name, const std::string& text)
        : folder_(std::filesystem::temp_directory_path() / ("fp8rl_rl_" + std::to_string(::getpid()))) {
        std::filesystem::create_directories(folder_);
        path_ = (folder_ / name).string();
        std::ofstream(path_, std::ios::binary) << text;
    }
    ~TempFile() { std::filesystem::remove(path_); }
    const std::string& path() const { return path_; }

  private:
    std::filesystem::path folder_;
    std::string path_;
};

TaskOptions options(const std::string& name, const std::string& train, const std::string& validation = "",
                    int64_t validation_size = 0) {
    TaskOptions o;
    o.name = name;
    o.train_file = train;
    o.validation_file = validation;
    o.validation_size = validation_size;
    return o;
}

double reward(Task& task, const Problem& problem, std::string_view text) {
    Completion c{&problem, text, true};
    return task.rewards({&c, 1}).at(0);
}

std::string rows(int n) {
    std::string s;
    for (int i = 0; i < n; ++i)
        s += "{\"question\": \"q" + std::to_string(i) + "\", \"answer\": \"" + std::to_string(i) + "\"}\n";
    return s;
}

const char* gsm8k_rows =
    "{\"question\": \"Clips?\", \"answer\": \"She sold 48/2 = <<48/2=24>>24 in May.\\nIn all "
    "<<48+24=72>>72.\\n#### 72\"}\n"
    "{\"question\": \"Profit?\", \"answer\": \"#### 1,250\"}\n";

}  // namespace

TEST_CASE("gsm8k: gold after ####, solutions without calculator notes", "[dataset][gsm8k]") {
    TempFile train("g.jsonl", gsm8k_rows),
        validation("v.jsonl", "{\"question\": \"x\", \"answer\": \"#### -3.50\"}\n");
    auto task = make_task(options("gsm8k", train.path(), validation.path()));
    std::set<std::string> answers, solutions;
    for (uint64_t i = 0; i < 2; ++i)
        answers.insert(task->train(i).answer), solutions.insert(task->train(i).solution);
    CHECK(answers == std::set<std::string>{"72", "1250"});
    CHECK(solutions.count("She sold 48/2 = 24 in May.\nIn all 72.\n#### 72") == 1);
    CHECK(task->validation(0).answer == "-3.5");
    CHECK(task->validation(0).id == "v.jsonl:1");
}

TEST_CASE("gsm8k: ####, else the last box, else the last number", "[dataset][gsm8k]") {
    TempFile train("g.jsonl", gsm8k_rows);
    auto task = make_task(options("gsm8k", train.path()));
    Problem p = task->train(0);
    p.answer = "1250";
    CHECK(reward(*task, p, "so #### 1,250 dollars, or 3") == 1);
    CHECK(reward(*task, p, "#### 7 no, #### $1250.00") == 1);
    CHECK(reward(*task, p, "\\boxed{\\$1{,}250} in 3 days") == 1);
    CHECK(reward(*task, p, "It is $1,250.") == 1);
    CHECK(reward(*task, p, "It is 1250 of 1300") == 0);
    CHECK(reward(*task, p, "1250 then #### 1251") == 0);
    CHECK(reward(*task, p, "####") == 0);
    CHECK(reward(*task, p, "") == 0);
    CHECK(task->final_answer("a 1,250.0 b") == "1250");
}

TEST_CASE("exact_match: white space around does not count, anything else does", "[dataset]") {
    TempFile train("e.jsonl",
                   "{\"prompt\": \"2+2\", \"target\": 4}\n\n{\"prompt\": \"sky\", \"target\": \" blue \"}\n");
    TaskOptions o = options("exact_match", train.path());
    o.question_key = "prompt", o.answer_key = "target";
    auto task = make_task(o);
    for (uint64_t i = 0; i < 2; ++i) {
        Problem p = task->train(i);
        if (p.prompt == "2+2") {
            CHECK(reward(*task, p, "\n4 ") == 1);
            CHECK(reward(*task, p, "4.") == 0);
        } else {
            CHECK(reward(*task, p, "blue") == 1);
            CHECK(reward(*task, p, "Blue") == 0);
        }
    }
}

TEST_CASE("boxed_math: gold with or without a box around it", "[dataset]") {
    TempFile train("b.jsonl", "{\"question\": \"a\", \"answer\": \"\\\\frac34\"}\n");
    auto task = make_task(options("boxed_math", train.path()));
    Problem p = task->train(0);
    CHECK(p.solution == "\\boxed{\\frac34}");
    CHECK(reward(*task, p, "Thus \\boxed{0.75}") == 1);
    CHECK(reward(*task, p, "Thus 0.75") == 0);
    CHECK(reward(*task, p, "\\boxed{}") == 0);
    CHECK(reward(*task, p, p.solution) == 1);
    TempFile worked("w.jsonl", "{\"question\": \"a\", \"answer\": \"So it is $\\\\boxed{12}$.\"}\n");
    auto second = make_task(options("boxed_math", worked.path()));
    CHECK(second->train(0).answer == "12");
    CHECK(second->train(0).solution == "So it is $\\boxed{12}$.");
}

TEST_CASE("Training goes through every row once an epoch, in a new order by seed and epoch", "[dataset]") {
    TempFile train("t.jsonl", rows(50));
    TaskOptions o = options("exact_match", train.path());
    auto task = make_task(o);
    std::vector<std::string> first, second;
    for (uint64_t i = 0; i < 50; ++i)
        first.push_back(task->train(i).id), second.push_back(task->train(50 + i).id);
    CHECK(first != second);
    CHECK(std::set<std::string>(first.begin(), first.end()).size() == 50);
    CHECK(std::set<std::string>(first.begin(), first.end()) ==
          std::set<std::string>(second.begin(), second.end()));
    o.seed = 2;
    CHECK(make_task(o)->train(0).id + make_task(o)->train(1).id != first[0] + first[1]);
    CHECK(first[0].substr(0, 8) == "t.jsonl:");
}

TEST_CASE("Rows set aside for validation never train", "[dataset]") {
    TempFile train("t.jsonl", rows(50) + rows(5));  // five questions stand there twice
    auto task = make_task(options("exact_match", train.path(), "", 20));
    REQUIRE(task->validation_size() == 20);
    std::set<std::string> held_out;
    for (int64_t i = 0; i < 20; ++i) held_out.insert(task->validation(i).prompt);
    for (uint64_t i = 0; i < 100; ++i) CHECK(held_out.count(task->train(i).prompt) == 0);
}

TEST_CASE("A question in both files is left out of training and counted", "[dataset]") {
    TempFile train("t.jsonl", rows(10)), validation("v.jsonl", rows(3));
    auto task = make_task(options("exact_match", train.path(), validation.path()));
    for (uint64_t i = 0; i < 14; ++i) CHECK(task->train(i).prompt > "q2");
    REQUIRE(task->notes().size() == 2);
    CHECK(says(task->notes()[0], "7 training and 3 validation problems"));
    CHECK(says(task->notes()[1], "3 rows"));
    CHECK(make_task(options("exact_match", train.path(), validation.path(), 1))->notes()[1].substr(0, 6) ==
          "1 rows");
}

TEST_CASE("Files that are not as described are refused by file and line", "[dataset]") {
    auto refused = [](const std::string& name, const std::string& text, int64_t validation_size = 0) {
        TempFile train("t.jsonl", text);
        return refusal([&] { make_task(options(name, train.path(), "", validation_size)); });
    };
    CHECK(says(refused("exact_match", rows(2) + "{oops\n"), "t.jsonl:3"));
    CHECK(says(refused("exact_match", "{\"question\": \"a\"}\n"), "\"answer\" is missing"));
    CHECK(says(refused("exact_match", "{\"question\": 3, \"answer\": \"x\"}\n"), "t.jsonl:1: question"));
    CHECK(says(refused("exact_match", "{\"question\": \" \", \"answer\": \"x\"}\n"), "question is empty"));
    CHECK(says(refused("exact_match", "[1]\n"), "t.jsonl:1"));
    CHECK(says(refused("exact_match", ""), "no rows"));
    CHECK(says(refused("gsm8k", "{\"question\": \"a\", \"answer\": \"72\"}\n"), "####"));
    CHECK(says(refused("gsm8k", "{\"question\": \"a\", \"answer\": \"#### many\"}\n"), "t.jsonl:1"));
    CHECK(says(refused("boxed_math", "{\"question\": \"a\", \"answer\": \"\"}\n"), "answer is empty"));
    CHECK(says(refused("exact_match", rows(5), 5), "leave nothing to train on"));
    CHECK(says(refusal([] { make_task(options("gsm8k", "")); }), "task.train"));
    CHECK(says(refusal([] { make_task(options("gsm8k", "/no/such.jsonl")); }), "/no/such.jsonl"));
    TempFile train("t.jsonl", rows(3)), validation("v.jsonl", rows(3));
    CHECK(says(refusal([&] { make_task(options("exact_match", train.path(), validation.path())); }),
               "every row is also a validation problem"));
    CHECK(says(refusal([&] { make_task(options("exact_match", train.path(), validation.path(), 9)); }),
               "has 3 rows"));
}
