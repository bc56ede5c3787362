// Rewards from an external program: the exchange, its failures, and that nothing is left running.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>

#include "refused.h"
#include "rl/command_protocol.h"
#include "rl/subprocess.h"
#include "rl/task.h"

using namespace fp8rl;
using namespace fp8rl::rl;
using test::refusal;
using test::says;
using namespace std::chrono_literals;

namespace {

// Reads a request line into $line and its id into $id.
const std::string each_line = "while IFS= read -r line; do id=${line#*\\\"id\\\":}; id=${id%%,*}; ";

struct Fixture {
    std::string path;
    Problem problem;

    Fixture()
        : path((std::filesystem::temp_directory_path() / ("fp8rl_cmd_" + std::to_string(::getpid())))
                   .string()) {
        std::ofstream(path) << "{\"question\": \"2+2\", \"answer\": \"4\"}\n{\"question\": \"3+3\"}\n";
        problem.id = "train/0";
        problem.prompt = "2+2";
        problem.answer = "4";
    }
    ~Fixture() { std::filesystem::remove(path); }

    std::unique_ptr<Task> task(const std::string& script, double limit = 20) const {
        TaskOptions o;
        o.name = "command";
        o.train_file = path;
        o.validation_size = 0;
        o.command = {"/bin/sh", "-c", script};
        o.time_limit = limit;
        return make_task(o);
    }
    std::vector<double> rewards(Task& task, size_t n, const std::string& text = "4") const {
        std::vector<Completion> completions(n, Completion{&problem, text, true});
        return task.rewards(completions);
    }
    std::string failure(const std::string& script, size_t n = 2, double limit = 20) const {
        auto t = task(script, limit);
        return refusal([&] { rewards(*t, n); });
    }
};

bool no_children() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

}  // namespace

TEST_CASE("A program is started once and rewards batch after batch, in order", "[command]") {
    Fixture f;
    {
        // The reward is the id plus the number of the process's lines so far: it must keep running.
        auto task = f.task("n=0; " + each_line +
                           "n=$((n+1)); echo \"{\\\"id\\\": $id, \\\"reward\\\": $n.5}\"; done");
        CHECK(f.rewards(*task, 3) == std::vector<double>{1.5, 2.5, 3.5});
        CHECK(f.rewards(*task, 2) == std::vector<double>{4.5, 5.5});
        CHECK(f.rewards(*task, 0).empty());
    }
    CHECK(no_children());
}

TEST_CASE("A batch larger than both pipes passes while the program answers line by line", "[command]") {
    Fixture f;
    auto task =
        f.task(each_line +
               "echo \"{\\\"id\\\": $id, \\\"reward\\\": 1, \\\"why\\\": \\\"$line\\\"}\" | tr -d '\\\\' "
               "> /dev/null; echo \"{\\\"id\\\": $id, \\\"reward\\\": 1}\"; done");
    CHECK(f.rewards(*task, 40, std::string(8000, 'x')) == std::vector<double>(40, 1.0));
}

TEST_CASE("A request carries problem, question, answer, completion and whether it finished", "[command]") {
    Problem p;
    p.id = "train/3";
    p.messages = {{"system", "Be brief."}, {"user", "2 + 2?"}};
    p.answer = "4";
    auto line = request_line(17, {&p, "It is\n\"4\"", false});
    CHECK(line.back() == '\n');
    CHECK(std::count(line.begin(), line.end(), '\n') == 1);
    auto json = nlohmann::json::parse(line);
    CHECK(json == nlohmann::json::parse(R"({"id": 17, "problem": "train/3", "question": "2 + 2?",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 + 2?"}],
        "answer": "4", "completion": "It is\n\"4\"", "finished": false})"));
    p.messages.clear();
    p.prompt = "raw";
    CHECK(nlohmann::json::parse(request_line(0, {&p, "\xff", true}))["question"] == "raw");
}

TEST_CASE("A reply needs the id that was asked and a finite reward", "[command]") {
    CHECK(read_reward("{\"id\": 3, \"reward\": -0.25, \"note\": \"x\"}", 3, "line 1") == -0.25);
    CHECK(read_reward("{\"id\": 3, \"reward\": 1}\r", 3, "line 1") == 1);
    for (auto [line, part] : {std::pair{"hello", "the line is: hello"},
                              {"", "line 7"},
                              {"{\"id\": 4, \"reward\": 1}", "id 4 where 3 was asked"},
                              {"{\"id\": 3}", "\"reward\" is missing"},
                              {"{\"reward\": 1}", "\"id\" is missing"},
                              {"{\"id\": 3, \"reward\": NaN}", "NaN"},
                              {"{\"id\": 3, \"reward\": \"1\"}", "reward"},
                              {"{\"id\": 3, \"reward\": null}", "reward"},
                              {"{\"id\": 3, \"reward\": 1e999}", "line 7"},
                              {"[3, 1]", "is needed"},
                              {"{\"id\": 3, \"reward\": 1} {", "line 7"}}) {
        INFO(line);
        auto message = refusal([&, text = line] { read_reward(text, 3, "line 7"); });
        CHECK(says(message, part));
        CHECK(says(message, "line 7"));
    }
}

TEST_CASE("Failures of the program are told apart, and leave no process behind", "[command]") {
    Fixture f;
    CHECK(says(f.failure("exit 3"), "ended (exit code 3) after 0 of 2 completions"));
    CHECK(says(f.failure("read -r line; echo '{\"id\": 0, \"reward\": 1}'; exit 0"),
               "ended (exit code 0) after 1 of 2 completions"));
    CHECK(says(f.failure("kill -9 $$"), "ended (signal 9)"));
    CHECK(says(f.failure("read -r line; echo nonsense; sleep 0.2; echo more; cat > /dev/null"),
               "output line 1"));
    CHECK(says(f.failure("echo '{\"id\": 0, \"reward\": NaN}'; echo x; cat > /dev/null"), "NaN"));
    CHECK(says(
        f.failure("echo '{\"id\": 0, \"reward\": 1}'; echo '{\"id\": 0, \"reward\": 1}'; cat > /dev/null"),
        "id 0 where 1 was asked"));
    CHECK(says(
        f.failure("printf '{\"id\":0,\"reward\":1}\\n{\"id\":1,\"reward\":1}\\n{\"id\":2,\"reward\":1}\\n'; "
                  "cat > /dev/null"),
        "more than one line per completion"));
    CHECK(says(f.failure("head -c 3000000 /dev/zero | tr '\\0' x; cat > /dev/null"), "longer than"));
    CHECK(no_children());
}

TEST_CASE("The time limit ends the program and everything it started", "[command]") {
    Fixture f;
    auto begin = std::chrono::steady_clock::now();
    auto message = f.failure("sleep 100 & echo $! > " + f.path + ".pid; wait", 2, 0.3);
    CHECK(says(message, "time limit of 0.3 s passed after 0 of 2 completions"));
    CHECK(std::chrono::steady_clock::now() - begin < 5s);
    CHECK(no_children());
    long long grandchild = std::stoll(test::read_text(f.path + ".pid"));
    std::filesystem::remove(f.path + ".pid");
    // Gone, or a zombie of whoever inherited it.
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid, name, state = "gone";
    for (int i = 0; i < 100 && stat.good(); ++i) {
        std::ifstream again("/proc/" + std::to_string(grandchild) + "/stat");
        if (!(again >> pid >> name >> state) || state == "Z") break;
        usleep(10000);
        state = "running";
    }
    CHECK(state != "running");
}

TEST_CASE("A program that stops reading is an outcome, not a SIGPIPE", "[command]") {
    struct sigaction before;
    sigaction(SIGPIPE, nullptr, &before);
    CHECK(before.sa_handler == SIG_DFL);  // the signal would end this test
    Subprocess program({"/bin/sh", "-c", "exec 0<&-; echo gone; exit 5"});
    std::string much(4 << 20, 'x');
    auto x = program.exchange(much, 2, 10s);
    CHECK(x.outcome == Subprocess::Outcome::closed);
    CHECK(x.lines == std::vector<std::string>{"gone"});
    CHECK(program.end(5s) == "exit code 5");
    CHECK(no_children());
}

TEST_CASE("A program that ignores the end of its input is killed after a second", "[command]") {
    { Subprocess program({"/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"}); }
    CHECK(no_children());
}

TEST_CASE("Standard error of the program reaches ours", "[command]") {
    Fixture f;
    std::string log = f.path + ".err";
    int saved = dup(STDERR_FILENO), file = open(log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    dup2(file, STDERR_FILENO);
    auto message = f.failure("echo the model is missing >&2; exit 1");
    dup2(saved, STDERR_FILENO);
    close(saved), close(file);
    CHECK(says(message, "exit code 1"));
    CHECK(test::read_text(log) == "the model is missing\n");
    std::filesystem::remove(log);
}

TEST_CASE("A program that cannot be started is refused by name", "[command]") {
    CHECK(says(refusal([] { Subprocess p({"/no/such/program"}); }), "cannot start /no/such/program"));
    CHECK(no_children());
    Fixture f;
    TaskOptions o;
    o.name = "command";
    o.train_file = f.path;
    o.validation_size = 0;
    CHECK(says(refusal([&] { make_task(o); }), "task.command"));
    o.command = {"true"};
    o.time_limit = 0;
    CHECK(says(refusal([&] { make_task(o); }), "task.command.timeout"));
}
