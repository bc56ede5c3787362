// The progress bar with a clock of our own, the log beside it, requests to stop, and the time limit.
#include "run/progress.h"

#include <chrono>
#include <thread>

#include "run/log.h"
#include "run/signals.h"
#include "run/time_limit.h"
#include "support.h"

using namespace fp8rl;
using namespace fp8rl::run;
using namespace fp8rl::run::test;

namespace {

struct Screen {
    double now = 100;
    std::vector<std::string> shown;
    Progress::Options options(bool terminal, int columns = 80) {
        Progress::Options o;
        o.terminal = terminal;
        o.columns = columns;
        o.clock = [this] { return now; };
        o.out = [this](const std::string& s) { shown.push_back(s); };
        return o;
    }
    std::string last() const { return shown.empty() ? "" : shown.back(); }
};

}  // namespace

TEST_CASE("the bar shows what is done and the time left by the pace of the last units") {
    Screen screen;
    Progress p(screen.options(true));
    p.begin("train", 8, 2);
    CHECK(screen.last() == "\r\x1b[Ktrain [======                  ] 2/8");
    CHECK(p.seconds_left() < 0);
    screen.now += 10;
    p.update(4, "rollout");  // 2 units in 10 s, 4 to go
    CHECK(p.seconds_left() == Approx(20));
    CHECK(screen.last() == "\r\x1b[Ktrain [============            ] 4/8  20.0 s left  rollout");
    p.end();
    CHECK(screen.last() == "\r\x1b[K");
}

TEST_CASE("the pace forgets units older than the last twenty") {
    Screen screen;
    Progress p(screen.options(true));
    p.begin("train", 1000);
    for (int i = 1; i <= 30; ++i) screen.now += i <= 10 ? 100 : 2, p.update(i);
    CHECK(p.seconds_left() == Approx(970 * 2));
}

TEST_CASE("notes inside a unit are drawn at most ten times a second, and lines fit the terminal") {
    Screen screen;
    Progress p(screen.options(true, 40));
    p.begin("train", 8);
    size_t before = screen.shown.size();
    for (int i = 0; i < 100; ++i) p.note("sampling"), screen.now += 0.01;
    CHECK(screen.shown.size() - before >= 8);
    CHECK(screen.shown.size() - before <= 11);
    for (const auto& s : screen.shown) CHECK(s.size() <= 39 + 4);
}

TEST_CASE("a line clears the bar first and the bar comes back after it, once however deeply held") {
    Screen screen;
    Progress p(screen.options(true));
    p.begin("train", 8);
    screen.shown.clear();
    {
        ClearedLine outer;
        ClearedLine inner;
        CHECK(screen.shown == std::vector<std::string>{"\r\x1b[K"});
        p.update(1);  // drawn only after the line
        CHECK(screen.shown.size() == 1);
    }
    REQUIRE(screen.shown.size() == 2);
    CHECK(holds(screen.last(), "1/8"));
}

TEST_CASE("away from a terminal there is a plain line now and then") {
    Screen screen;
    Progress p(screen.options(false));
    p.begin("train", 200);
    for (int i = 1; i <= 130; ++i) screen.now += 1, p.update(i);
    REQUIRE(screen.shown.size() == 2);
    CHECK(screen.shown[0] == "train: 60 of 200, 2:20 left");
    CHECK(screen.shown[1] == "train: 120 of 200, 1:20 left");
}

TEST_CASE("the log goes to stderr, one line with its level, and nothing goes to stdout") {
    TempFolder folder;
    pid_t child = start([&] {
        if (!std::freopen((folder / "out").c_str(), "w", stdout)) return 1;
        if (!std::freopen((folder / "err").c_str(), "w", stderr)) return 1;
        log::debug("too fine");
        log::info("begins");
        log::warn("with {} braces");
        log::set_level(log::Level::error);
        log::info("hidden");
        log::error("ends");
        std::fflush(nullptr);
        return 0;
    });
    REQUIRE(wait_for(child) == 0);
    std::string err = fp8rl::test::read_text(folder / "err");
    CHECK(fp8rl::test::read_text(folder / "out").empty());
    CHECK(std::count(err.begin(), err.end(), '\n') == 3);
    CHECK(holds(err, "info: begins\n"));
    CHECK(holds(err, "warning: with {} braces\n"));
    CHECK(holds(err, "error: ends\n"));
}

TEST_CASE("SIGTERM, SIGINT and SIGUSR1 each ask for a stop and end nothing") {
    const std::pair<int, Stop> signals[] = {
        {SIGTERM, Stop::sigterm}, {SIGINT, Stop::sigint}, {SIGUSR1, Stop::sigusr1}};
    for (auto [signal, reason] : signals) {
        pid_t child = start([s = signal, expected = reason] {
            install_signal_handlers();
            if (stop_requested() != Stop::none) return 1;
            ::raise(s);
            if (stop_requested() != expected) return 2;
            ::raise(SIGTERM);  // the first reason stays
            if (stop_requested() != expected) return 3;
            clear_stop();
            return stop_requested() == Stop::none ? 0 : 4;
        });
        CHECK(wait_for(child) == 0);
    }
    CHECK(describe(Stop::sigterm) == "SIGTERM");
    CHECK(holds(describe(Stop::time_limit), "time limit"));
}

TEST_CASE("a second SIGINT ends the process at once with 130") {
    pid_t child = start([] {
        install_signal_handlers();
        ::raise(SIGINT);
        ::raise(SIGINT);
        return 0;
    });
    CHECK(wait_for(child) == 130);
}

TEST_CASE("a signal from outside reaches a process that works") {
    int ready[2];
    REQUIRE(::pipe(ready) == 0);
    pid_t child = start([&] {
        install_signal_handlers();
        if (::write(ready[1], "x", 1) != 1) return 1;
        for (int i = 0; i < 5000 && stop_requested() == Stop::none; ++i)
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return stop_requested() == Stop::sigusr1 ? 0 : 2;
    });
    char c;
    REQUIRE(::read(ready[0], &c, 1) == 1);
    ::kill(child, SIGUSR1);
    CHECK(wait_for(child) == 0);
    ::close(ready[0]);
    ::close(ready[1]);
}

TEST_CASE("the time limit is reached when the next step would run into the margin") {
    TimeLimit t(1000, 600, 60);
    CHECK(*t.left(1000) == 540);
    CHECK(!t.reached(1500, 40));
    CHECK(t.reached(1500, 41));
    CHECK(t.reached(1541));
    CHECK(!TimeLimit().reached(1e18, 1e18));
    CHECK(!TimeLimit().left(0));
    CHECK(holds(refusal([] { TimeLimit(0, 60, 60); }), "leaves nothing"));
    CHECK(holds(refusal([] { TimeLimit(0, 0, 0); }), "must be positive"));
}

TEST_CASE("the recipe's limit comes before Slurm's, and a short Slurm job keeps half for saving") {
    dist::Environment env{{"SLURM_JOB_END_TIME", "5000"}};
    CHECK(*slurm_seconds_left(env, 4000) == 1000);
    CHECK(!slurm_seconds_left({}, 4000));
    CHECK(*TimeLimit::choose(200, 50, 10, env, 4000).left(10) == 150);
    TimeLimit slurm = TimeLimit::choose({}, 300, 10, env, 4000);
    CHECK(*slurm.left(10) == 700);
    CHECK(holds(slurm.notice(), "Slurm job ends in"));
    TimeLimit shorter = TimeLimit::choose({}, 300, 10, env, 4800);
    CHECK(*shorter.left(10) == 100);
    CHECK(holds(shorter.notice(), "more than half"));
    CHECK(!TimeLimit::choose({}, 300, 10, {}, 4800).left(10));
    CHECK(holds(refusal([&] { TimeLimit::choose({}, 300, 10, env, 6000); }), "has passed"));
    CHECK(holds(refusal([] { slurm_seconds_left({{"SLURM_JOB_END_TIME", "noon"}}, 0); }), "noon"));
}
