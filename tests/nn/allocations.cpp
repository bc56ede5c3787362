// Once every buffer has its size, a trip through the network allocates nothing: not in training, not in
// decode.
#include <atomic>
#include <cstdlib>
#include <new>

#include "tiny.h"

static std::atomic<long> allocations{0};

void* operator new(size_t n) {
    ++allocations;
    if (void* p = std::malloc(n ? n : 1)) return p;
    throw std::bad_alloc();
}
void* operator new(size_t n, const std::nothrow_t&) noexcept {
    ++allocations;
    return std::malloc(n ? n : 1);
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace fp8rl {
namespace {

using namespace test;

TEST_CASE("From the second time on, forward, backward and decode allocate nothing") {
    for (auto mode :
         {PrecisionMode::bf16, PrecisionMode::blockwise, PrecisionMode::per_tensor, PrecisionMode::mxfp8}) {
        PrecisionRules rules = rules_of(mode);
        rules.kv_cache.format = rules.attention = CacheFormat::fp8;
        Tiny tiny(tiny_spec(), rules);
        PackedBatch batch;
        batch.add(tokens(100, 1));
        batch.add(tokens(200, 2));
        tiny.calibrate(batch);
        KvCache cache(device(), tiny.spec, tiny.model.kv_scales(), 8);
        cache.reserve(tiny.weights.arena);
        const std::vector<int32_t> id = {3}, position = {20}, pages = {5, 1};
        const Sequence one{0, 1, 20, pages.data()};
        Saved saved(tiny.phase.arena);
        for (int time = 0; time < 3; ++time) {
            tiny.phase.arena.reset();
            tiny.scratch.arena.reset();
            Pass train = tiny.pass(batch);
            train.saved = &saved;
            train.observe = true;
            Pass decode{device(), tiny.scratch.arena, id, position, {&one, 1}};
            decode.cache = &cache;
            const long before = allocations;
            Tensor h = tiny.model.forward(train);
            tiny.model.backward(train, h);
            tiny.model.forward(decode);
            INFO("mode " << static_cast<int>(mode) << ", time " << time);
            if (time > 0) CHECK(allocations == before);
        }
    }
}

}  // namespace
}  // namespace fp8rl
