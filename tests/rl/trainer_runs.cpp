// Claims about whole runs: the same recipe gives the same bytes, a resumed run ends where an uninterrupted
// one does, and what a step skips it skips openly.
#include "core/parallel.h"
#include "run/signals.h"
#include "trainer_support.h"

using namespace fp8rl;
using namespace fp8rl::test;

TEST_CASE("two runs of one recipe, and runs on 1, 2 and 3 threads, give equal metrics and weights") {
    std::vector<FinishedRun> runs;
    for (int threads : {1, 2, 3, 1}) {
        parallel::set_threads(threads);
        runs.push_back(train({}));
    }
    parallel::set_threads(parallel::available_threads());
    for (size_t i = 1; i < runs.size(); ++i) {
        CHECK(runs[i].weights == runs[0].weights);
        CHECK(runs[i].state == runs[0].state);
        CHECK(without_timings(runs[i].records) == without_timings(runs[0].records));
    }
}

TEST_CASE("another seed gives another run") {
    CHECK_FALSE(train({"seed=2"}).weights == train({"seed=1"}).weights);
}

TEST_CASE(
    "a run stopped after any step and resumed ends with the uninterrupted run's weights, metrics and "
    "scales") {
    for (const std::vector<std::string>& mode :
         {std::vector<std::string>{}, std::vector<std::string>{"precision.recipe=per_tensor"},
          std::vector<std::string>{"precision.kv_cache.recalibrate=prompts", "optimizer.moments=bf16"}}) {
        FinishedRun whole = train(mode);
        for (int64_t stop_at : {1, 2, 3, 4}) {
            INFO("stopped after step " << stop_at << " " << (mode.empty() ? "" : mode[0]));
            TemporaryFolder folder;
            rl::TrainerHooks hooks;
            run::clear_stop();
            // The request arrives while the step before is closing: the loop saves after the step that
            // follows.
            hooks.after_rollout = [&](int64_t step, rl::Session&, std::vector<rl::Sample>&) {
                if (step == stop_at) run::request_stop(run::Stop::sigterm);
            };
            hooks.after_step = [&](int64_t step) {
                if (step == stop_at - 1) run::request_stop(run::Stop::sigterm);
            };
            if (stop_at == 1) run::request_stop(run::Stop::sigterm);
            FinishedRun first = train_in(folder.path(), mode, hooks);
            run::clear_stop();
            CHECK_FALSE(first.result.finished);
            CHECK(first.result.state.step == stop_at);
            FinishedRun second = train_in(folder.path(), mode, {}, true);
            CHECK(second.result.finished);
            CHECK(second.weights == whole.weights);
            CHECK(second.state == whole.state);
            CHECK(without_timings(second.records) == without_timings(whole.records));
        }
    }
}

TEST_CASE("recomputing blocks changes memory and nothing else") {
    CHECK(train({"train.recompute=block"}).weights == train({}).weights);
}

TEST_CASE("in fp32 the update does not depend on how the batch is cut into micro-batches") {
    const std::vector<std::string> fp32 = {"precision={recipe: fp32, kv_cache: {format: bf16}}",
                                           "warmup.steps=0", "train.steps=1", "validation.at_start=false"};
    auto with = [&](const char* micro) {
        auto o = fp32;
        o.push_back(std::string("train.micro_tokens=") + micro);
        o.push_back("algorithm.entropy=0.05");
        return train(o).weights;
    };
    auto small = with("12"), large = with("4096");
    double worst = 0;
    for (size_t p = 0; p < small.size(); ++p)
        for (size_t i = 0; i < small[p].size(); ++i)
            worst = std::max(worst, std::abs(static_cast<double>(small[p][i]) - large[p][i]));
    // Adam's first step is lr times the gradient's sign where it is not tiny: only rounding of near-zero
    // gradients shows.
    CHECK(worst < 2e-4);
}

TEST_CASE("a step whose groups all earn the same reward updates nothing and says so") {
    // An untrained model never sorts: every reward is 0.
    FinishedRun run = train({"warmup.steps=0", "train.steps=2", "validation.at_start=false"});
    for (const auto& r : run.records)
        if (r.at("reward") == 0.0) CHECK(r.at("update_skipped") == "no gradient");
    FinishedRun start = train({"warmup.steps=0", "train.steps=1", "validation.at_start=false"});
    CHECK(run.weights == start.weights);
    CHECK(run.result.state.compared_tokens > 0);
}

TEST_CASE("a gradient that is not finite stops the run or skips the update, never silently") {
    auto poison = [](int64_t step, rl::Session& session, std::vector<rl::Sample>& samples) {
        if (step != 3) return;
        for (auto& s : samples) s.advantage = 1;
        *static_cast<float*>(session.model().params().find("model.norm.weight")->grad.data) =
            std::numeric_limits<float>::infinity();
    };
    rl::TrainerHooks hooks;
    hooks.after_rollout = poison;
    try {
        train({}, hooks);
        FAIL("went on with an infinite gradient");
    } catch (const Error& e) {
        CHECK(std::string(e.what()).find("model.norm.weight") != std::string::npos);
    }
    FinishedRun run = train({"train.on_nonfinite=skip"}, hooks);
    bool counted = false;
    for (const auto& r : run.records) counted |= r.value("update_skipped", "") == "not finite";
    CHECK(counted);
}
