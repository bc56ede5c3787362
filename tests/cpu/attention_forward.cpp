// Attention's forward: the definition in double, the same bytes on every path, and the promise that a row's
// value does not depend on what it is computed together with.
#include "attention_support.h"

using namespace fp8rl;
using namespace fp8rl::test;

namespace {

const AttentionCase cases[] = {
    {DType::f32, DType::f32, 4, 2, 16, false, {0, 0}, {70, 5}},
    {DType::bf16, DType::bf16, 9, 3, 64, false, {0, 64, 130}, {33, 20, 1}},
    {DType::bf16, DType::bf16, 4, 4, 80, false, {0, 3}, {17, 66}},
    {DType::bf16, DType::bf16, 2, 1, 10, false, {0}, {21}},
    {DType::bf16, DType::bf16, 2, 1, 128, false, {60}, {9}},
    {DType::bf16, DType::bf16, 2, 2, 256, false, {0}, {40}},
    {DType::bf16, DType::e4m3, 9, 3, 64, false, {0, 200}, {70, 1}},
    {DType::bf16, DType::e4m3, 6, 2, 32, true, {0, 77}, {66, 3}},
    {DType::bf16, DType::e4m3, 2, 1, 10, true, {0}, {35}},
    {DType::bf16, DType::bf16, 6, 2, 64, false, {1100, 505}, {3, 20}},
};

}  // namespace

TEST_CASE("attention is softmax(q k^T scale) v over the keys up to the row's own") {
    on_scalar([&] {
        uint64_t seed = 1;
        for (const AttentionCase& c : cases) {
            Attention a(c, ++seed);
            const std::vector<Sequence> batch = a.tails();
            a.run(batch, a.kv);
            // P is rounded to bf16 or E4M3; f32 keeps it.
            const double tolerance = c.act == DType::f32 ? 2e-6 : c.fp8 ? 0.06 : 0.012;
            std::vector<double> want;
            for (const Sequence& s : batch)
                for (int64_t row = s.row; row < s.row + s.rows; row += 3)
                    for (int64_t h = 0; h < c.heads; ++h) {
                        const double lse = a.reference(s, row, h, want);
                        INFO("row " << row << " head " << h << " d " << c.d);
                        REQUIRE(std::fabs(at(a.last_lse, row * c.heads + h) - lse) <
                                1e-5 * (1 + std::fabs(lse)));
                        for (int64_t i = 0; i < c.d; ++i)
                            REQUIRE(std::fabs(at(a.last_out, row * a.q.cols() + h * c.d + i) -
                                              want[static_cast<size_t>(i)]) <= tolerance);
                    }
        }
    });
}

TEST_CASE("attention gives the same bytes on every path and number of threads") {
    uint64_t seed = 20;
    for (const AttentionCase& c : cases) {
        Attention a(c, ++seed);
        const std::vector<Sequence> batch = a.tails();
        INFO("d " << c.d << ", format " << name_of(c.format));
        same_everywhere([&] {
            const KvLayer cache = a.new_cache();
            a.fill(cache);
            Bytes b = a.run(batch, cache);
            append(b, cache.pages, cpu::kv_page_bytes(c.format, c.kv_heads, c.d));
            return b;
        });
    }
}

TEST_CASE("a row's value is the same alone, in prefill, in chunks, in decode and in permuted pages") {
    for (AttentionCase c : cases) {
        c.past = {0, 0, 0}, c.rows = {150, 37, 2};
        Attention a(c, 77);
        const std::vector<Sequence> all = a.whole();
        const Bytes expected = a.run(all, a.kv);
        const Tensor out = a.last_out, lse = a.last_lse;
        INFO("d " << c.d << ", format " << name_of(c.format) << ", fp8 " << c.fp8);
        for (int chunk : {1, 5, 16}) {
            // The cache grows as the chunks arrive: later keys are not there yet.
            const KvLayer cache = a.new_cache();
            for (int32_t done = 0; done < 150; done += chunk) {
                std::vector<Sequence> batch;
                for (Sequence s : all) {
                    const int32_t n = std::min(chunk, s.rows - done);
                    if (n <= 0) continue;
                    s.row += done, s.past = done, s.rows = n;
                    batch.push_back(s);
                }
                cpu::kv_append(cache, a.k, a.v, batch);
                a.run(batch, cache);
                for (const Sequence& s : batch)
                    for (int64_t r = s.row; r < s.row + s.rows; ++r)
                        REQUIRE(row_of(a.last_out, a.last_lse, r) == row_of(out, lse, r));
            }
        }
        std::reverse(a.order().begin(), a.order().end());
        const KvLayer moved = a.new_cache();
        a.fill(moved);
        REQUIRE(a.run(all, moved) == expected);
    }
}

TEST_CASE("a long decode whose chunks are shared out equals the same row of a prefill") {
    AttentionCase c{DType::bf16, DType::bf16, 2, 1, 16, false, {0}, {1300}};
    for (DType format : {DType::bf16, DType::e4m3}) {
        c.format = format;
        Attention a(c, 5);
        std::vector<Sequence> one = a.whole();
        a.run(one, a.kv);
        const Tensor out = a.last_out, lse = a.last_lse;
        for (int32_t position : {511, 512, 1023, 1024, 1299}) {
            one[0].row = one[0].past = position, one[0].rows = 1;
            a.run(one, a.kv);
            REQUIRE(row_of(a.last_out, a.last_lse, position) == row_of(out, lse, position));
        }
    }
}

TEST_CASE("a key that is not finite spoils the rows that see it and no others") {
    for (DType format : {DType::bf16, DType::f32}) {
        AttentionCase c{format == DType::f32 ? DType::f32 : DType::bf16, format, 2, 1, 16, false, {0}, {40}};
        Attention a(c, 9);
        const std::vector<Sequence> all = a.whole();
        a.run(all, a.kv);
        const Tensor out = a.last_out, lse = a.last_lse;
        Tensors::put(a.k, 21 * 16 + 3, INFINITY);
        Tensors::put(a.v, 21 * 16 + 5, NAN);
        Tensors::put(a.v, 21 * 16 + 6, INFINITY);
        const KvLayer cache = a.new_cache();
        a.fill(cache);
        a.run(all, cache);
        for (int64_t r = 0; r < 21; ++r) REQUIRE(row_of(a.last_out, a.last_lse, r) == row_of(out, lse, r));
        REQUIRE(std::isnan(at(a.last_out, 22 * 32 + 5)));
    }
}

TEST_CASE("the cache reports amax and saturation, and copies pages") {
    AttentionCase c{DType::bf16, DType::e4m3, 2, 1, 16, true, {0}, {20}};
    Attention a(c, 11);
    Tensors::put(a.k, 3 * 16 + 2, -100.0f);
    Tensors::put(a.k, 4 * 16 + 2, 1e-6f);
    Tensors::put(a.v, 7 * 16 + 1, 0.0f);
    Tensors::put(a.q, 5, -9.5f);
    same_everywhere([&] {
        KvLayer cache = a.new_cache();
        float k_amax = 0, v_amax = 0, q_amax = 0, v_largest = 0;
        QuantCounts k_counts, v_counts;
        cache.k_amax = &k_amax, cache.v_amax = &v_amax, cache.k_counts = &k_counts,
        cache.v_counts = &v_counts;
        a.spec.q_amax = &q_amax;
        a.fill(cache);
        a.run(a.whole(), cache);
        for (int64_t i = 0; i < a.v.size(); ++i)
            v_largest = amax_of(v_largest, static_cast<float>(at(a.v, i)));
        REQUIRE(k_amax == 100.0f);
        REQUIRE(v_amax == v_largest);
        REQUIRE(q_amax == 9.5f);
        REQUIRE(k_counts.values == 320);
        REQUIRE(k_counts.saturated == 1);
        REQUIRE(k_counts.flushed >= 1);
        REQUIRE(v_counts.saturated == 0);
        const size_t page = cpu::kv_page_bytes(c.format, 1, 16);
        cpu::kv_copy_page(cache, a.order()[3], a.order()[0]);
        REQUIRE(std::memcmp(static_cast<char*>(cache.pages) + static_cast<size_t>(a.order()[3]) * page,
                            static_cast<char*>(cache.pages) + static_cast<size_t>(a.order()[0]) * page,
                            page) == 0);
        Bytes b;
        append(b, &k_counts, sizeof k_counts);
        append(b, &v_counts, sizeof v_counts);
        return b;
    });
    a.spec.q_amax = nullptr;
}

TEST_CASE("attention refuses what does not fit together") {
    AttentionCase c{DType::bf16, DType::bf16, 2, 1, 16, false, {0}, {4}};
    Attention a(c, 12);
    a.spec.fp8 = true;
    REQUIRE_THROWS_AS(a.run(a.whole(), a.kv), Error);
    a.spec.fp8 = false;
    KvLayer wrong = a.kv;
    wrong.format = DType::f32;
    REQUIRE_THROWS_AS(a.run(a.whole(), wrong), Error);
    REQUIRE_THROWS_AS(cpu::kv_page_bytes(DType::bf16, 1, 7), Error);
    REQUIRE_THROWS_AS(cpu::kv_page_bytes(DType::e5m2, 1, 8), Error);
}
