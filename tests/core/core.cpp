// Claims about lib/core: Philox's published vectors, arenas, the pool, text.
#include <atomic>
#include <numeric>

#include "core/arena.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "core/text.h"
#include "test.h"

using namespace fp8rl;

TEST_CASE("Philox 4x32-10 gives the known answers of the Random123 distribution") {
    CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
          std::array<uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
          std::array<uint32_t, 4>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
          std::array<uint32_t, 4>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("random integers stay in range and normals have unit variance") {
    Random r(7, Stream::test);
    double sum = 0, squares = 0;
    for (int i = 0; i < 20000; ++i) {
        auto k = r.integer(-3, 3);
        REQUIRE((k >= -3 && k <= 3));
        double x = r.normal();
        sum += x, squares += x * x;
    }
    CHECK(std::abs(sum / 20000) < 0.03);
    CHECK(squares / 20000 == Approx(1).margin(0.05));
    CHECK(uniform(1, Stream::sample, 2, 3, 4, 5) != uniform(1, Stream::task, 2, 3, 4, 5));
}

TEST_CASE("an arena gives back a scope, keeps its high-water mark and refuses to overflow") {
    alignas(256) static char memory[4096];
    Arena a("test", memory, sizeof memory);
    a.allocate(100);
    size_t before = a.used();
    {
        auto s = a.scope();
        auto t = a.tensor(DType::f32, {4, 8});
        CHECK(reinterpret_cast<uintptr_t>(t.data) % Arena::alignment == 0);
        CHECK(a.used() > before);
    }
    CHECK(a.used() == before);
    CHECK(a.high_water() == 256 + 128);
    CHECK_THROWS_AS(a.allocate(4096), Error);
    auto c = Arena::counting("plan");
    c.allocate(size_t{1} << 40);
    CHECK(c.high_water() == size_t{1} << 40);
}

TEST_CASE("for_each visits every chunk once on any number of threads, and rethrows") {
    for (int n : {1, 2, 3, 5}) {
        parallel::set_threads(n);
        for (int round = 0; round < 200; ++round) {
            std::vector<std::atomic<int>> seen(37);
            parallel::for_each(37, [&](int64_t i, int worker) {
                if (worker < 0 || worker >= n) std::abort();
                ++seen[i];
            });
            for (auto& s : seen) REQUIRE(s == 1);
        }
        CHECK_THROWS_AS(parallel::for_each(8, [](int64_t i, int) { check(i != 5, "five"); }), Error);
        std::atomic<int64_t> total{0};
        parallel::for_range(1000, 16, [&](int64_t b, int64_t e, int) { total += e - b; });
        CHECK(total == 1000);
    }
    parallel::set_threads(parallel::available_threads());
}

TEST_CASE("text helpers do what their comments say") {
    CHECK(text::nearest("learning_rte", {"lr", "learning_rate", "eps"}) == "learning_rate");
    CHECK(text::nearest("zzz", {"lr", "learning_rate"}).empty());
    CHECK(text::glob("*.mlp.down*", "layers.3.mlp.down_proj"));
    CHECK_FALSE(text::glob("layers.?", "layers.31"));
    CHECK(text::human_bytes(1536) == "1.50 KiB");
    double d;
    long long i;
    CHECK((text::parse("1e-6", d) && d == 1e-6));
    CHECK_FALSE(text::parse("2.5", i));
    CHECK(text::valid_utf8("a\xC3") == "a");
    CHECK(text::valid_utf8("a\xFFz") == "a\xEF\xBF\xBDz");
    CHECK(text::valid_utf8("\xED\xA0\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
}
