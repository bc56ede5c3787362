// The heart of the project: rollout and training see the same bits. A token's hidden state does not depend on
// what else stands in the batch, on chunks, on the thread count, or on whether K and V came from a cache.
#include "core/parallel.h"
#include "tiny.h"

namespace fp8rl {
namespace {

using namespace test;

struct Recipe {
    std::string name;
    PrecisionRules rules;
};

// Every recipe that is exact, with every KV cache.
std::vector<Recipe> exact_recipes() {
    std::vector<Recipe> base = {{"bf16", rules_of(PrecisionMode::bf16)},
                                {"blockwise", rules_of(PrecisionMode::blockwise)},
                                {"mxfp8", rules_of(PrecisionMode::mxfp8)},
                                {"per_tensor delayed", rules_of(PrecisionMode::per_tensor)}};
    base.push_back({"blockwise pow2", rules_of(PrecisionMode::blockwise)});
    base.back().rules.pow2_scales = true;
    base.push_back({"per_tensor static", rules_of(PrecisionMode::per_tensor)});
    base.back().rules.per_tensor.scaling = Scaling::fixed;
    base.back().rules.per_tensor.static_scale = 0.02;
    std::vector<Recipe> out;
    for (const Recipe& r : base)
        for (int cache = 0; cache < 3; ++cache) {
            Recipe with = r;
            if (cache) with.rules.kv_cache.format = CacheFormat::fp8;
            if (cache == 2) with.rules.attention = CacheFormat::fp8;
            with.name += cache == 0   ? ", bf16 cache"
                         : cache == 1 ? ", fp8 cache"
                                      : ", fp8 cache and attention";
            out.push_back(with);
        }
    return out;
}

std::vector<float> rows(const std::vector<float>& all, int64_t first, int64_t count, int64_t cols) {
    return {all.begin() + first * cols, all.begin() + (first + count) * cols};
}

// One sequence through a paged cache, `chunk` tokens at a time, its pages scattered.
std::vector<float> through_cache(Tiny& tiny, const std::vector<int32_t>& ids, int64_t chunk) {
    auto scope = tiny.phase.arena.scope();
    const auto n = static_cast<int64_t>(ids.size());
    const int64_t pages = (n + kv_page_tokens - 1) / kv_page_tokens;
    KvCache cache(tiny.model.backend(), tiny.spec, tiny.model.kv_scales(), 2 * pages + 1);
    cache.reserve(tiny.phase.arena);
    std::vector<int32_t> table;
    for (int64_t i = 0; i < pages; ++i) table.push_back(static_cast<int32_t>(2 * (pages - i)));
    std::vector<float> out;
    for (int64_t at = 0; at < n; at += chunk) {
        auto inner = tiny.scratch.arena.scope();
        const int64_t count = std::min(chunk, n - at);
        std::vector<int32_t> positions;
        for (int64_t i = 0; i < count; ++i) positions.push_back(static_cast<int32_t>(at + i));
        const Sequence s{0, static_cast<int32_t>(count), static_cast<int32_t>(at), table.data()};
        Pass pass{
            tiny.model.backend(), tiny.scratch.arena, std::span(ids).subspan(at, count), positions, {&s, 1}};
        pass.cache = &cache;
        pass.in_rollout = true;
        const auto h = download(tiny.model.forward(pass));
        out.insert(out.end(), h.begin(), h.end());
    }
    return out;
}

TEST_CASE("Decode token by token, in chunks, alone or in a batch: the bits of training's forward") {
    ModelSpec spec = tiny_spec();
    spec.hidden = 160;  // more than one scale block, the last one partial
    spec.ffn = 200;
    spec.head_dim = 16;
    spec.qk_norm = true;
    const auto a = tokens(70, 1), b = tokens(5, 2), c = tokens(33, 3);
    for (const Recipe& recipe : exact_recipes()) {
        INFO(recipe.name);
        Tiny tiny(spec, recipe.rules);
        PackedBatch batch;
        for (const auto* ids : {&b, &a, &c}) batch.add(*ids);
        tiny.calibrate(batch);
        const auto together = tiny.hidden(batch);
        CHECK(norm(together) > 1);

        int64_t row = 0;
        for (const auto* ids : {&b, &a, &c}) {
            const auto n = static_cast<int64_t>(ids->size());
            PackedBatch one;
            one.add(*ids);
            CHECK(same_bits(tiny.hidden(one), rows(together, row, n, spec.hidden)));
            row += n;
        }
        const auto expected = rows(together, 5, 70, spec.hidden);
        CHECK(same_bits(through_cache(tiny, a, 1), expected));
        CHECK(same_bits(through_cache(tiny, a, 23), expected));
        CHECK(same_bits(through_cache(tiny, a, 70), expected));
    }
}

TEST_CASE("Past one chunk of 512 keys, decode still equals training") {
    const auto ids = tokens(700, 4);
    for (auto attention : {CacheFormat::bf16, CacheFormat::fp8}) {
        PrecisionRules rules = rules_of(PrecisionMode::blockwise);
        rules.attention = attention;
        rules.kv_cache.format = attention;
        Tiny tiny(tiny_spec(), rules);
        PackedBatch batch;
        batch.add(ids);
        tiny.calibrate(batch);
        const auto expected = tiny.hidden(batch);
        CHECK(same_bits(through_cache(tiny, ids, 97), expected));
        CHECK(same_bits(through_cache(tiny, ids, 1), expected));
    }
}

TEST_CASE("Saving for backward does not change the forward") {
    PrecisionRules rules = rules_of(PrecisionMode::blockwise);
    for (bool recompute : {false, true}) {
        ModelOptions o = options_of(tiny_spec(), rules);
        o.recompute_block = recompute;
        Tiny tiny(tiny_spec(), o);
        PackedBatch batch;
        batch.add(tokens(40, 5));
        const auto expected = tiny.hidden(batch);
        Saved saved(tiny.phase.arena);
        Pass pass = tiny.pass(batch);
        pass.saved = &saved;
        CHECK(same_bits(download(tiny.model.forward(pass)), expected));
    }
}

// Forward and backward of a packed batch under a recipe.
std::vector<std::vector<float>> train_once(const PrecisionRules& rules, bool recompute) {
    ModelSpec spec = tiny_spec();
    spec.hidden = 160;
    spec.head_dim = 16;
    spec.qk_norm = spec.attention_bias = true;
    ModelOptions o = options_of(spec, rules);
    o.recompute_block = recompute;
    Tiny tiny(spec, o);
    PackedBatch batch;
    batch.add(tokens(37, 1));
    batch.add(tokens(64, 2));
    tiny.calibrate(batch);
    tiny.gradients(batch, normal(static_cast<size_t>(batch.rows() * spec.hidden), 9), true);
    auto out = tiny.all_gradients();
    for (const auto& c : tiny.model.take_counts())
        out.push_back({static_cast<float>(c.counts.values), static_cast<float>(c.counts.saturated),
                       static_cast<float>(c.counts.flushed)});
    tiny.model.begin_step();
    for (const auto& s : tiny.model.state()) out.push_back(s.values);
    return out;
}

void require_same(const std::vector<std::vector<float>>& x, const std::vector<std::vector<float>>& y) {
    REQUIRE(x.size() == y.size());
    for (size_t i = 0; i < x.size(); ++i) {
        INFO("tensor " << i);
        CHECK(same_bits(x[i], y[i]));
    }
}

TEST_CASE("recompute: block gives the gradients, counters and scales of recompute: none, to the bit") {
    for (const Recipe& recipe : exact_recipes()) {
        INFO(recipe.name);
        require_same(train_once(recipe.rules, false), train_once(recipe.rules, true));
    }
}

TEST_CASE("One, two and three threads give the same gradients, counters and scales, to the bit") {
    const int before = parallel::threads();
    for (const Recipe& recipe : exact_recipes()) {
        INFO(recipe.name);
        parallel::set_threads(1);
        const auto one = train_once(recipe.rules, false);
        for (int threads : {2, 3}) {
            parallel::set_threads(threads);
            require_same(train_once(recipe.rules, false), one);
        }
    }
    parallel::set_threads(before);
}

}  // namespace
}  // namespace fp8rl
