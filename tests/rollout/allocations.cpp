// The claim that planning allocates nothing once a rollout has found its size: this program counts operator
// new.
#include <atomic>
#include <cstdlib>
#include <new>

#include "rollout/scheduler.h"
#include "test.h"

static std::atomic<int64_t> allocations{0};

void* operator new(size_t bytes) {
    ++allocations;
    if (void* p = std::malloc(bytes ? bytes : 1)) return p;
    throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
    ++allocations;
    return std::malloc(bytes ? bytes : 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

using namespace fp8rl;

TEST_CASE("once a rollout has found its size, planning further tokens allocates nothing") {
    std::vector<int32_t> prompt(30, 1);
    std::vector<Request> requests;
    for (int32_t i = 0; i < 8; ++i) requests.push_back({0, i, prompt});
    std::vector<Episode> episodes(requests.size());
    for (auto& e : episodes) e.tokens.reserve(256);
    std::vector<int64_t> limits(requests.size(), 200);
    Scheduler scheduler(requests, episodes, limits, 60, {6, 512, true});  // preempts, and 2 wait at first
    Iteration it;
    int64_t iterations = 0, settled = 0;
    while (scheduler.plan(it)) {
        // The last two enter late; before that the batch has its final shape.
        if (++iterations == 10) settled = allocations;
        if (iterations == 100) CHECK(allocations == settled);
        for (auto d : it.draws) {
            auto& tokens = episodes[size_t(d.request)].tokens;
            tokens.push_back(2);
            if (tokens.size() == 200) scheduler.finish(d.request);
        }
    }
    CHECK(iterations > 200);
    CHECK(scheduler.counters().preemptions > 0);
}
