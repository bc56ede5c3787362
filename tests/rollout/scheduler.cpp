// Claims about the scheduler, with a model made of hashes: the "K and V" of a position are a hash of all
// tokens up to it, a page stores them, and each row checks every key it would read. So a wrong page, a
// missing copy, a position computed from the wrong token or a draw from the wrong row is seen at once.
#include "rollout/scheduler.h"

#include <map>

#include "core/rng.h"
#include "rollout/budget.h"
#include "rollout/refusal.h"

using namespace fp8rl;

namespace {

uint64_t mix(uint64_t a, uint64_t b) {
    auto r = philox({uint32_t(a), uint32_t(a >> 32), uint32_t(b), uint32_t(b >> 32)}, {1, 2});
    return uint64_t{r[0]} << 32 | r[1];
}

constexpr int32_t stop_token = 0;

// What the model and the sampler would say after a row with this hash. About one in `mean` is the stop token.
int32_t token_after(uint64_t hash, const Request& r, size_t index, int mean) {
    uint64_t h = mix(mix(hash, uint64_t(r.prompt_index) << 32 | uint32_t(r.sample_index)), index);
    return h % uint64_t(mean) == 0 ? stop_token : 1 + int32_t(h % 1000);
}

struct Job {
    std::vector<std::vector<int32_t>> prompts;
    std::vector<Request> requests;
    std::vector<int64_t> limits;
    int mean = 20;
};

// The answer without any scheduling.
std::vector<std::vector<int32_t>> reference(const Job& job) {
    std::vector<std::vector<int32_t>> all;
    for (size_t i = 0; i < job.requests.size(); ++i) {
        uint64_t h = 0;
        for (int32_t t : job.requests[i].prompt) h = mix(h, uint64_t(t));
        std::vector<int32_t> tokens;
        while (int64_t(tokens.size()) < job.limits[i] && (tokens.empty() || tokens.back() != stop_token)) {
            tokens.push_back(token_after(h, job.requests[i], tokens.size(), job.mean));
            h = mix(h, uint64_t(tokens.back()));
        }
        all.push_back(tokens);
    }
    return all;
}

struct Key {
    uint64_t hash = 0;
    int32_t id = -1;
};

struct Outcome {
    std::vector<std::vector<int32_t>> tokens;
    SchedulerCounters counters;
    int64_t max_rows = 0, max_running = 0;
};

Outcome run(const Job& job, int64_t pages, const SchedulerConfig& config) {
    std::vector<Episode> episodes(job.requests.size());
    Scheduler scheduler(job.requests, episodes, job.limits, pages, config);
    std::vector<Key> memory(size_t(pages) * kv_page_tokens);
    uint64_t kept = 0;
    Outcome out;
    Iteration it;
    bool ok = true;  // one CHECK at the end: millions of assertions are slow
    while (scheduler.plan(it)) {
        for (auto [to, from] : it.copies)
            std::copy_n(memory.begin() + from * kv_page_tokens, kv_page_tokens,
                        memory.begin() + to * kv_page_tokens);
        auto cell = [&](const Sequence& s, int32_t p) -> Key& {
            return memory[size_t(s.pages[p / kv_page_tokens]) * kv_page_tokens + size_t(p % kv_page_tokens)];
        };
        std::vector<uint64_t> rows(it.ids.size());
        int32_t row = 0;
        bool decodes = true;
        for (const Sequence& s : it.sequences) {
            ok &= s.row == row && s.rows >= 1;
            decodes &= s.rows == 1 || row == s.row;
            row += s.rows;
            uint64_t h = 0;
            for (int32_t p = 0; p < s.past; ++p) {  // every key that is read
                h = mix(h, uint64_t(cell(s, p).id));
                ok &= cell(s, p).hash == h;
            }
            for (int32_t p = s.past; p < s.past + s.rows; ++p) {
                ok &= scheduler.pool().users(s.pages[p / kv_page_tokens]) >= 1;
                int32_t id = it.ids[size_t(s.row + p - s.past)];
                ok &= it.positions[size_t(s.row + p - s.past)] == p;
                h = mix(h, uint64_t(id));
                cell(s, p) = {h, id};
                rows[size_t(s.row + p - s.past)] = h;
            }
        }
        ok &= row == it.rows();
        out.max_rows = std::max(out.max_rows, it.rows());
        out.max_running = std::max(out.max_running, int64_t(it.draws.size()));
        std::vector<uint64_t> drawn;
        for (auto d : it.draws) drawn.push_back(d.row == Iteration::kept ? kept : rows[size_t(d.row)]);
        if (it.keep_row != Iteration::kept) kept = rows[size_t(it.keep_row)];
        for (size_t i = 0; i < drawn.size(); ++i) {
            size_t r = size_t(it.draws[i].request);
            auto& tokens = episodes[r].tokens;
            tokens.push_back(token_after(drawn[i], job.requests[r], tokens.size(), job.mean));
            if (tokens.back() == stop_token || int64_t(tokens.size()) == job.limits[r])
                scheduler.finish(it.draws[i].request);
        }
    }
    CHECK(ok);
    CHECK(scheduler.pool().used() == 0);
    CHECK(scheduler.pool().max_used() <= pages);
    for (auto& e : episodes) out.tokens.push_back(e.tokens);
    out.counters = scheduler.counters();
    return out;
}

Job make_job(Random& random, int prompts, int samples, int longest_prompt, int64_t limit, int mean) {
    Job job;
    job.mean = mean;
    for (int p = 0; p < prompts; ++p) {
        std::vector<int32_t> prompt(size_t(random.integer(1, longest_prompt)));
        for (auto& t : prompt) t = int32_t(random.integer(1, 1000));
        job.prompts.push_back(prompt);
    }
    for (int p = 0; p < prompts; ++p)
        for (int s = 0; s < samples; ++s) {
            job.requests.push_back({p, s, job.prompts[size_t(p)]});
            job.limits.push_back(limit);
        }
    return job;
}

int64_t least_pages(const Job& job) {
    int64_t most = 0;
    for (size_t i = 0; i < job.requests.size(); ++i)
        most = std::max(most, pages_for(int64_t(job.requests[i].prompt.size()) + job.limits[i] - 1));
    return most;
}

}  // namespace

TEST_CASE("slots, chunks, pages, sharing and preemption change no token") {
    Random random(1, Stream::test);
    int64_t preempted = 0, shared = 0;
    for (int round = 0; round < 40; ++round) {
        Job job = make_job(random, int(random.integer(1, 6)), int(random.integer(1, 8)),
                           round % 3 == 0 ? 3 : int(random.integer(1, 70)), random.integer(1, 60),
                           int(random.integer(1, 60)));
        auto expected = reference(job);
        for (int64_t slots : {1, 3, 64})
            for (int64_t chunk : {1, 7, 512})
                for (int64_t spare : {0, 1, 5, 1000})
                    for (bool sharing : {false, true}) {
                        CAPTURE(round, slots, chunk, spare, sharing);
                        Outcome o = run(job, least_pages(job) + spare, {slots, chunk, sharing});
                        CHECK(o.tokens == expected);
                        CHECK(o.max_rows <= slots - 1 + chunk);
                        preempted += o.counters.preemptions;
                        shared += o.counters.shared_tokens;
                        if (!sharing) CHECK(o.counters.shared_tokens == 0);
                        if (o.counters.preemptions == 0) CHECK(o.counters.recomputed_tokens == 0);
                    }
    }
    CHECK(preempted > 1000);
    CHECK(shared > 10000);
}

TEST_CASE("the pages that the budget says are needed are enough to preempt nobody") {
    Random random(2, Stream::test);
    for (int round = 0; round < 60; ++round) {
        int prompts = int(random.integer(1, 6)), samples = int(random.integer(1, 9));
        int longest = int(random.integer(1, 60));
        int64_t limit = random.integer(1, 50);
        Job job = make_job(random, prompts, samples, longest, limit, 40);
        for (int64_t slots : {1, 2, 5, 64})
            for (bool sharing : {false, true}) {
                CAPTURE(round, slots, sharing);
                RolloutShape shape{prompts, samples, longest, limit, sharing};
                Outcome o = run(job, pages_needed(shape, slots), {slots, 16, sharing});
                CHECK(o.counters.preemptions == 0);
                CHECK(o.tokens == reference(job));
            }
    }
}

TEST_CASE("a group's prompt is computed once, whatever the slots") {
    Random random(3, Stream::test);
    Job job = make_job(random, 3, 8, 50, 10, 1000000);
    int64_t prompt_tokens = 0;
    for (auto& p : job.prompts) prompt_tokens += int64_t(p.size());
    for (int64_t slots : {1, 5, 64}) {
        CAPTURE(slots);
        Outcome o = run(job, 1000, {slots, 512, true});
        CHECK(o.counters.prefill_tokens == prompt_tokens);
        CHECK(o.counters.shared_tokens == 7 * prompt_tokens);
        CHECK(o.counters.decode_tokens == 3 * 8 * 10);
    }
    CHECK(run(job, 1000, {64, 512, false}).counters.prefill_tokens == 8 * prompt_tokens);
}

TEST_CASE(
    "with a slot for everybody a whole rollout takes as many forwards as its longest completion has tokens") {
    Random random(4, Stream::test);
    Job job = make_job(random, 8, 8, 20, 25, 1000000);
    CHECK(run(job, 1000, {64, 512, true}).counters.iterations == 25);
    CHECK(run(job, 1000, {64, 512, true}).max_running == 64);
}

TEST_CASE("finished sequences leave the batch at once and others take their slots") {
    Random random(5, Stream::test);
    Job job = make_job(random, 40, 1, 4, 200, 10);  // mean length 10, up to 200
    auto expected = reference(job);
    size_t total = 0, longest = 0;
    for (auto& t : expected) total += t.size(), longest = std::max(longest, t.size());
    Outcome o = run(job, 1000, {4, 512, true});
    CHECK(o.counters.decode_tokens == int64_t(total));
    // Four slots are never idle until the queue is empty.
    CHECK(o.counters.iterations <= int64_t(total / 4 + longest + 1));
}

TEST_CASE("the order of requests changes no completion") {
    Random random(6, Stream::test);
    Job job = make_job(random, 4, 5, 40, 30, 25);
    auto expected = reference(job);
    std::vector<size_t> order(job.requests.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = 0; round < 10; ++round) {
        for (size_t i = order.size(); i-- > 1;)
            std::swap(order[i], order[size_t(random.integer(0, int64_t(i)))]);
        Job shuffled = job;
        for (size_t i = 0; i < order.size(); ++i) shuffled.requests[i] = job.requests[order[i]];
        Outcome o = run(shuffled, least_pages(job) + 3, {6, 9, true});
        for (size_t i = 0; i < order.size(); ++i) CHECK(o.tokens[i] == expected[order[i]]);
    }
}

TEST_CASE("requests that claim one prompt but differ in tokens share nothing") {
    std::vector<int32_t> a{1, 2, 3}, b{1, 2, 4};
    Job job;
    job.requests = {{0, 0, a}, {0, 1, b}, {0, 2, a}};
    job.limits = {5, 5, 5};
    Outcome o = run(job, 10, {3, 512, true});
    CHECK(o.tokens == reference(job));
}

TEST_CASE("a sequence that does not fit the cache alone is refused by name, and an empty prompt too") {
    using test::has;
    std::vector<int32_t> prompt(20, 1);
    std::vector<Request> requests{{7, 0, prompt}};
    std::vector<Episode> episodes(1);
    std::vector<int64_t> limits{14};  // 33 positions: 3 pages
    auto made = [&] { Scheduler(requests, episodes, limits, 2, {}); };
    CHECK(has(test::refusal(made), "prompt 7"));
    CHECK(has(test::refusal(made), "need 3 pages"));
    CHECK(has(test::refusal(made), "has 2"));
    limits[0] = 13;  // 32
    CHECK(test::refusal(made).empty());
    requests[0].prompt = {};
    CHECK(has(test::refusal(made), "prompt 7 has no tokens"));
}

TEST_CASE("an empty rollout plans nothing") {
    Scheduler scheduler({}, {}, {}, 4, {});
    Iteration it;
    CHECK_FALSE(scheduler.plan(it));
}
