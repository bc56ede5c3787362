// Runs that are asked to stop: by signals, by the wall clock. Every one saves, says so, and goes on to the
// same end as a run that was left alone.
#include <signal.h>

#include <chrono>
#include <thread>

#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

// Starts a run that pauses while it saves at `every` steps, and sends the signal in the first pause: the run
// stops after the following step.
Result stopped(const Lab& lab, const std::string& name, int every, int signal, Strings sets = {}) {
    sets.push_back("checkpoint.every=" + std::to_string(every));
    Options pause;
    pause.env = {{"FP8RL_TEST_PAUSE", "before_delete:400"}};
    Process p(lab.arguments(name, sets), pause);
    REQUIRE(p.wait_for_err("test pause"));
    p.send(signal);
    return p.finish();
}

int64_t last_step(const std::vector<Line>& lines) { return lines.back().at("step").get<int64_t>(); }

}  // namespace

TEST_CASE("SIGTERM in the warm-up, at the phase border and in RL: 130, a checkpoint, and the same end") {
    Lab lab;
    lab.trained("whole");
    const int border = lab_warmup;
    for (int stop : {border / 2, border, border + 1, border + 3}) {
        const std::string name = "stop_" + std::to_string(stop);
        Result r = stopped(lab, name, stop - 1, SIGTERM);
        INFO(r.err);
        CHECK(r.code == 130);
        CHECK(r.said("stopped after step " + std::to_string(stop) + ": SIGTERM"));
        CHECK(last_step(json_lines(r.out)) == stop);
        CHECK_FALSE(lab.has(name, "summary.json"));
        CHECK(lab.file(name, "checkpoints/latest") == "step_" + std::to_string(stop) + "\n");

        Result rest = lab.trained(name, {}, {"--resume"});
        CHECK(json_lines(rest.out).front().at("step").get<int64_t>() == stop + 1);
        CHECK(lab.weights(name) == lab.weights("whole"));
        CHECK(without(lab.metrics(name)) == without(lab.metrics("whole")));
        CHECK(lab.file(name, "completions.jsonl") == lab.file("whole", "completions.jsonl"));
        auto a = lab.summary(name), b = lab.summary("whole");
        a.erase("seconds"), b.erase("seconds");
        CHECK(a == b);
    }
}

TEST_CASE("a run stopped again and again ends like one left alone, in every kind of scale") {
    for (const Strings& sets :
         {Strings{"precision.recipe=per_tensor"}, Strings{"precision.recipe=mxfp8", "optimizer.moments=bf16"},
          Strings{"algorithm.updates_per_step=2", "algorithm.kl.beta=0.1", "optimizer.schedule=cosine"},
          Strings{"precision.kv_cache.recalibrate=prompts", "precision.attention=fp8"}}) {
        INFO(sets.front());
        Lab lab;
        Options pause;
        pause.env = {{"FP8RL_TEST_PAUSE", "before_delete:100"}};
        Strings every = sets;
        every.push_back("checkpoint.every=1");
        every.insert(every.end(), {"warmup.steps=2", "algorithm.entropy=0.01"});
        Strings once = sets;
        once.insert(once.end(), {"warmup.steps=2", "algorithm.entropy=0.01"});
        lab.trained("whole", once);
        Strings flags;
        int stops = 0;
        for (;; flags = {"--resume"}) {
            Process p(lab.arguments("parts", every, flags), pause);
            if (p.wait_for_err("test pause")) p.send(SIGUSR1);
            Result r = p.finish();
            INFO(r.err);
            if (r.code == 0) break;
            REQUIRE(r.code == 130);
            REQUIRE(r.said("SIGUSR1"));
            REQUIRE(++stops < 10);
        }
        CHECK(stops >= 3);
        CHECK(lab.weights("parts") == lab.weights("whole"));
        CHECK(without(lab.metrics("parts")) == without(lab.metrics("whole")));
    }
}

TEST_CASE("SIGINT stops after the step; a second one ends at once, and the run still resumes") {
    Lab lab;
    lab.trained("whole");
    Result gentle = stopped(lab, "gentle", 30, SIGINT);
    CHECK(gentle.code == 130);
    CHECK(gentle.said("stopped after step 31: SIGINT"));

    Options pause;
    pause.env = {{"FP8RL_TEST_PAUSE", "between_files:60000"}};
    lab.trained("abrupt", {"checkpoint.every=30", "train.steps=0"});
    Process p(lab.arguments("abrupt", {"checkpoint.every=1"}, {"--resume"}), pause);
    REQUIRE(p.wait_for_err("test pause"));
    const auto start = std::chrono::steady_clock::now();
    p.send(SIGINT);
    // Two signals sent at once may arrive as one.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    p.send(SIGINT);
    Result r = p.finish();
    CHECK(r.code == 130);
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(30));
    CHECK_FALSE(r.said("checkpoint saved"));
    lab.trained("abrupt", {}, {"--resume"});
    CHECK(lab.weights("abrupt") == lab.weights("whole"));
}

TEST_CASE("a run saves and stops before its time limit") {
    Lab lab;
    const Strings sets = {"train.steps=1000000", "validation.every=0", "validation.at_end=false"};
    Strings limited = sets;
    limited.push_back("checkpoint.time_limit=1s");
    limited.push_back("checkpoint.before_time_limit=0.6s");
    const auto start = std::chrono::steady_clock::now();
    Result r = lab.train("run", limited);
    INFO(r.err);
    CHECK(r.code == 130);
    CHECK(r.said("the time limit"));
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
    const int64_t done = last_step(lab.metrics("run"));
    CHECK(lab.file("run", "checkpoints/latest") == "step_" + std::to_string(done) + "\n");

    Result bad = lab.train("bad", {"checkpoint.time_limit=5m", "checkpoint.before_time_limit=5m"});
    CHECK(bad.code == 2);
    CHECK(bad.said("checkpoint.time_limit"));
}

TEST_CASE("the end of a Slurm job is a time limit") {
    Lab lab;
    const auto now =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
            .count();
    Options o;
    o.env = {{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_END_TIME", std::to_string(now + 3)}};
    Result r =
        lab.train("run", {"train.steps=1000000", "validation.every=0", "validation.at_end=false"}, {}, o);
    INFO(r.err);
    CHECK(r.code == 130);
    CHECK(r.said("the time limit"));
    CHECK(lab.has("run", "checkpoints/latest"));
}

}  // namespace fp8rl::test
