// Claims about a rollout with a real (tiny) model on the CPU backend: what it records equals training's
// forward to the bit, and nothing about how the work was scheduled changes a bit of any episode.
#include <algorithm>

#include "core/parallel.h"
#include "rollout/tiny_rollout.h"

using namespace fp8rl;
using test::check_exact;
using test::same;
using test::same_bits;
using test::TinyRollout;

namespace {

struct Threads {
    int before = parallel::threads();
    explicit Threads(int n) { parallel::set_threads(n); }
    ~Threads() { parallel::set_threads(before); }
};

}  // namespace

TEST_CASE("recorded log-probs equal training's to the bit in every mode, however the rollout is scheduled") {
    int64_t preempted = 0, shared = 0, runs = 0;
    for (const auto& mode : test::with_caches(test::linear_modes())) {
        CAPTURE(mode.name);
        TinyRollout r(mode.rules, {5, 16, 37}, 3, 24);  // pages: up to 4 a sequence
        auto episodes = r.run();
        check_exact(r, episodes, episodes.size());
        check_exact(r, episodes, 1);
        size_t stopped = 0;
        for (const auto& e : episodes) {
            stopped += e.finish == Finish::stop;
            CHECK(e.cutoff.empty());
            CHECK(e.tokens.size() == e.logp.size());
        }
        CHECK(stopped > 0);
        for (int threads : {1, 2}) {
            Threads use(threads);
            for (int64_t slots : {1, 3, 64})
                for (int64_t chunk : {1, 7, 512})
                    for (int64_t pages : {5, 256})
                        for (bool sharing : {false, true}) {
                            // All combinations with one thread; a sample of them with two.
                            if (threads == 2 && (slots == 1 || chunk == 1)) continue;
                            CAPTURE(threads, slots, chunk, pages, sharing);
                            CHECK(same(r.run({slots, chunk, pages, sharing}), episodes));
                            preempted += r.counters.preemptions;
                            shared += r.counters.shared_tokens;
                            ++runs;
                        }
        }
    }
    CHECK(runs == 18 * (36 + 16));
    CHECK(preempted > 500);
    CHECK(shared > 5000);
}

TEST_CASE("log-probs are exact for 1 to 64 sequences in a batch") {
    for (const auto& mode : test::with_caches(test::linear_modes())) {
        CAPTURE(mode.name);
        TinyRollout r(mode.rules, {3, 9, 14, 20, 11, 16, 7, 40}, 8, 10);
        auto episodes = r.run();
        check_exact(r, episodes, 64);
        for (int64_t slots : {2, 15, 16, 17, 33}) CHECK(same(r.run({slots, 30, 256, true}), episodes));
    }
}

TEST_CASE("log-probs stay exact beyond one chunk of 512 keys, with prompts cut anywhere") {
    for (auto mode : test::with_caches({{"blockwise", test::rules_of(PrecisionMode::blockwise)}})) {
        CAPTURE(mode.name);
        TinyRollout r(mode.rules, {505, 530}, 2, 16);
        r.sampling.stop_ids = {};
        auto episodes = r.run();
        check_exact(r, episodes, 3);
        for (int64_t chunk : {100, 512, 4096}) CHECK(same(r.run({4, chunk, 70, chunk != 512}), episodes));
        CHECK(r.counters.preemptions > 0);
    }
}

TEST_CASE("temperature, top-p and top-k: training finds the recorded log-probs again from the cut-offs") {
    auto rules = test::rules_of(PrecisionMode::blockwise);
    rules.kv_cache.format = CacheFormat::fp8;
    TinyRollout r(rules, {9, 20}, 4, 20);
    for (float temperature : {0.6f, 1.0f, 1.5f})
        for (auto [top_p, top_k] : {std::pair{1.0f, 0}, {0.8f, 0}, {1.0f, 10}, {0.9f, 40}}) {
            CAPTURE(temperature, top_p, top_k);
            r.sampling.temperature = temperature;
            r.sampling.top_p = top_p;
            r.sampling.top_k = top_k;
            auto episodes = r.run();
            check_exact(r, episodes, 3);
            CHECK(same(r.run({3, 7, 8, true}), episodes));
            for (const auto& e : episodes) {
                CHECK(e.cutoff.size() == (r.sampling.truncates() ? e.tokens.size() : 0));
                if (top_k)
                    for (float h : e.entropy) CHECK(h <= std::log(float(top_k)) + 1e-4f);
            }
        }
}

TEST_CASE("greedy decoding takes the largest logit and records log-probs of temperature 1") {
    TinyRollout r(test::rules_of(PrecisionMode::mxfp8), {9, 20, 33}, 2, 20);
    r.sampling.temperature = 0;
    auto episodes = r.run();
    auto train = r.train_side(episodes, 2);
    for (size_t i = 0; i < episodes.size(); ++i) {
        CHECK(episodes[i].tokens == train[i].best);
        CHECK(same_bits(episodes[i].logp, train[i].logp));
        CHECK(episodes[i].tokens == episodes[i - i % 2].tokens);  // samples of one prompt agree
    }
}

TEST_CASE("the order of requests changes nothing, the step and the seed change the draws") {
    TinyRollout r(test::rules_of(PrecisionMode::blockwise), {5, 16, 37}, 3, 12);
    auto episodes = r.run();
    std::vector<size_t> order(r.requests.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = (i * 4 + 5) % order.size();
    std::vector<Request> shuffled;
    for (size_t i : order) shuffled.push_back(r.requests[i]);
    auto others = r.run({4, 9, 12, true}, shuffled);
    for (size_t i = 0; i < order.size(); ++i) CHECK(same(others[i], episodes[order[i]]));
    // A part of the requests, as another rank would have it.
    auto part = r.run({}, std::span(r.requests).subspan(4, 3));
    for (size_t i = 0; i < part.size(); ++i) CHECK(same(part[i], episodes[4 + i]));
    CHECK_FALSE(same(r.run({}, r.requests, 2), episodes));
    r.sampling.seed = 99;
    CHECK_FALSE(same(r.run(), episodes));
}

TEST_CASE("a rollout precision that differs is not exact, but still the same in every schedule") {
    auto train = test::rules_of(PrecisionMode::bf16), rollout = test::rules_of(PrecisionMode::per_tensor);
    TinyRollout r(train, {5, 16, 37}, 3, 12, test::rollout_spec(), &rollout);
    auto episodes = r.run();
    auto trained = r.train_side(episodes, 4);
    size_t differing = 0;
    for (size_t i = 0; i < episodes.size(); ++i)
        for (size_t t = 0; t < episodes[i].logp.size(); ++t)
            differing += episodes[i].logp[t] != trained[i].logp[t];
    CHECK(differing > 0);
    CHECK(same(r.run({3, 7, 5, true}), episodes));
    CHECK(same(r.run({1, 1, 256, false}), episodes));
    // Training never sees these activations: the rollout itself observes them for the next step's scales.
    auto scales = [&] {
        std::vector<float> all;
        for (const auto& s : r.model.state())
            if (s.name != "kv_scales") all.insert(all.end(), s.values.begin(), s.values.end());
        return all;
    };
    auto before = scales();
    r.model.begin_step();
    CHECK(before.size() > 0);
    CHECK_FALSE(same_bits(scales(), before));
}
