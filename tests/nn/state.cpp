// Step-to-step state: delayed scales, KV scales, the guard; initialization; packing; memory as counted.
#include <set>

#include "backend/shape.h"
#include "core/parallel.h"
#include "tiny.h"

namespace fp8rl {
namespace {

using namespace test;

PrecisionRules fp8_everywhere() {
    PrecisionRules r = rules_of(PrecisionMode::per_tensor);
    r.kv_cache.format = r.attention = CacheFormat::fp8;
    return r;
}

TEST_CASE("Frozen scales change only at begin_step, from what was observed") {
    Tiny tiny(tiny_spec(), fp8_everywhere());
    PackedBatch small, large;
    small.add(tokens(30, 1));
    large.add(tokens(50, 2));
    tiny.calibrate(small);
    const auto before = tiny.hidden(small);
    CHECK(same_bits(tiny.hidden(small), before));
    tiny.model.params().visit([&](Param& p) {
        if (p.name.find("q_proj") == std::string::npos && p.name.find("up_proj") == std::string::npos) return;
        auto x = download(p.master);
        for (float& v : x) v *= 3;
        device().upload(p.master, x.data());
    });
    tiny.model.prepare();
    tiny.gradients(large, normal(50 * 32, 3), true);  // observes
    const auto frozen = tiny.hidden(small);
    CHECK(same_bits(tiny.hidden(small), frozen));
    tiny.model.begin_step();
    CHECK_FALSE(same_bits(tiny.hidden(small), frozen));
}

TEST_CASE("Without calibration a frozen scale is missing, and that is a defect") {
    for (const auto& rules : {rules_of(PrecisionMode::per_tensor), [] {
                                  PrecisionRules r = rules_of(PrecisionMode::bf16);
                                  r.kv_cache.format = CacheFormat::fp8;
                                  return r;
                              }()}) {
        Tiny tiny(tiny_spec(), rules);
        PackedBatch batch;
        batch.add(tokens(8, 1));
        CHECK_THROWS_AS(tiny.hidden(batch), Error);
    }
}

TEST_CASE("KV scales are amax x margin / 448 of K and V as the calibrating pass saw them") {
    PrecisionRules rules = rules_of(PrecisionMode::bf16);
    rules.kv_cache.format = CacheFormat::fp8;
    Tiny tiny(tiny_spec(), rules);
    PackedBatch batch;
    batch.add(tokens(40, 1));
    auto kept = tiny.phase.arena.scope();
    Saved saved(tiny.phase.arena);
    {
        auto scope = tiny.scratch.arena.scope();
        Pass p = tiny.pass(batch);
        p.calibrate = true;
        p.saved = &saved;
        tiny.model.forward(p);
    }
    tiny.model.begin_step();
    for (int l = 0; l < 2; ++l) {
        for (const auto& [values, scales] :
             {std::pair(saved.blocks[l].attention.k, tiny.model.kv_scales().k_scale),
              {saved.blocks[l].attention.v, tiny.model.kv_scales().v_scale}}) {
            const auto x = download(values), s = download(scales);
            for (int head = 0; head < 2; ++head) {
                float amax = 0;
                for (size_t i = 0; i < x.size(); ++i)
                    if (static_cast<int>(i / 8 % 2) == head) amax = std::max(amax, std::abs(x[i]));
                CHECK(s[l * 2 + head] == amax * 1.05f / 448.0f);
            }
        }
    }
}

TEST_CASE("State restored into a new model continues with the same bits") {
    Tiny a(tiny_spec(), fp8_everywhere()), b(tiny_spec(), fp8_everywhere());
    PackedBatch batch;
    batch.add(tokens(45, 1));
    const auto d = normal(45 * 32, 3);
    a.calibrate(batch);
    a.gradients(batch, d, true);  // maxima of the running step are state too
    b.model.restore(a.model.state());
    for (Tiny* t : {&a, &b}) t->model.begin_step();
    CHECK(same_bits(a.hidden(batch), b.hidden(batch)));
    const auto x = a.model.state(), y = b.model.state();
    REQUIRE(x.size() == y.size());
    for (size_t i = 0; i < x.size(); ++i) {
        CHECK(x[i].name == y[i].name);
        CHECK(same_bits(x[i].values, y[i].values));
    }
    PrecisionRules longer = fp8_everywhere();
    longer.per_tensor.history = 4;
    Tiny other(tiny_spec(), longer);
    CHECK_THROWS_AS(other.model.restore(a.model.state()), Error);
    Tiny plain(tiny_spec(), rules_of(PrecisionMode::bf16));
    CHECK_THROWS_AS(plain.model.restore(a.model.state()), Error);
}

TEST_CASE("A layer whose K saturates falls back to bf16 at the step boundary, once, and stays exact") {
    ModelOptions o = options_of(tiny_spec(), fp8_everywhere());
    o.kv.max_saturated = 1e-3f;
    Tiny tiny(tiny_spec(), o);
    PackedBatch batch;
    batch.add(tokens(60, 1));
    tiny.calibrate(batch);
    // K of layer 1 grows fourfold within a step: many values are beyond the frozen scale.
    Param& k = *tiny.model.params().find("model.layers.1.self_attn.k_proj.weight");
    auto w = download(k.master);
    for (float& v : w) v *= 4;
    device().upload(k.master, w.data());
    tiny.model.prepare();
    const auto d = normal(60 * 32, 3);
    tiny.gradients(batch, d, true);
    const auto moved = tiny.model.begin_step();
    REQUIRE(moved.size() == 1);
    CHECK(moved[0].layer == 1);
    CHECK(std::string(moved[0].which) == "K");
    CHECK(moved[0].counts.values == 60 * 16);
    CHECK(moved[0].counts.saturated > 1);
    CHECK(tiny.model.kv_scales().format(0) == DType::e4m3);
    CHECK(tiny.model.kv_scales().format(1) == DType::bf16);
    tiny.gradients(batch, d, true);
    CHECK(tiny.model.begin_step().empty());

    // The cache keeps its bytes and gets fewer pages; rollout still equals training.
    KvCache cache(device(), tiny.spec, tiny.model.kv_scales(), 12);
    CHECK(cache.pages() == 8);
    cache.reserve(tiny.phase.arena);
    const std::vector<int32_t> pages = {7, 2, 5, 0};
    const Sequence s{0, 60, 0, pages.data()};
    const auto expected = tiny.hidden(batch);
    auto scope = tiny.scratch.arena.scope();
    Pass p = tiny.pass(batch);
    p.sequences = {&s, 1};
    p.cache = &cache;
    CHECK(same_bits(download(tiny.model.forward(p)), expected));
    Tiny resumed(tiny_spec(), o);
    resumed.model.restore(tiny.model.state());
    CHECK(resumed.model.kv_scales().format(1) == DType::bf16);
}

TEST_CASE("Initial weights depend on the seed, name and element alone, and have the asked deviation") {
    const ModelSpec spec = tiny_spec();
    const int before = parallel::threads();
    std::vector<std::vector<float>> first;
    for (int threads : {1, 2}) {
        parallel::set_threads(threads);
        Tiny tiny(spec, rules_of(PrecisionMode::bf16));
        tiny.model.initialize(42);
        std::vector<std::vector<float>> all;
        tiny.model.params().visit([&](Param& p) { all.push_back(download(p.master)); });
        if (first.empty()) first = all;
        for (size_t i = 0; i < all.size(); ++i) CHECK(same_bits(all[i], first[i]));
    }
    parallel::set_threads(before);
    Tiny tiny(spec, rules_of(PrecisionMode::bf16));
    tiny.model.initialize(42);
    std::set<float> seen;
    tiny.model.params().visit([&](Param& p) {
        const auto x = download(p.master);
        INFO(p.name);
        if (p.kind == Param::Kind::vector) {
            CHECK(x == std::vector<float>(x.size(), 1.0f));
            return;
        }
        double expected = 0.02;
        if (p.name.find("o_proj") != std::string::npos || p.name.find("down_proj") != std::string::npos)
            expected /= 2;  // sqrt(2 * 2 layers)
        const double n = static_cast<double>(x.size());
        CHECK(norm(x) / std::sqrt(n) == Approx(expected).epsilon(5 / std::sqrt(2 * n)));
        CHECK(seen.insert(x[0]).second);  // no two parameters share numbers
    });
    Tiny other(spec, rules_of(PrecisionMode::bf16));
    other.model.initialize(43);
    CHECK_FALSE(same_bits(download(other.model.embedding().master), download(tiny.model.embedding().master)));
}

TEST_CASE("The shape backend counts the bytes that the CPU backend uses, and the FLOPs by hand") {
    ModelSpec spec = tiny_spec();
    spec.hidden = 160;
    for (const auto mode : {PrecisionMode::fp32, PrecisionMode::bf16, PrecisionMode::blockwise,
                            PrecisionMode::mxfp8, PrecisionMode::per_tensor})
        for (bool recompute : {false, true}) {
            PrecisionRules rules = rules_of(mode);
            if (mode != PrecisionMode::fp32) rules.kv_cache.format = rules.attention = CacheFormat::fp8;
            ModelOptions o = options_of(spec, rules);
            o.recompute_block = recompute;
            PackedBatch batch;
            batch.add(tokens(33, 1));
            batch.add(tokens(90, 2));
            const int64_t n = batch.rows();
            ShapeBackend shape(device());
            Model counted(shape, spec, o);
            Arena weights = Arena::counting("weights"), phase = Arena::counting("phase"),
                  scratch = Arena::counting("scratch");
            counted.reserve(weights);
            counted.prepare();
            counted.mark_calibrated();
            shape.clear();
            Saved saved(phase);
            Pass pass{shape, scratch, batch.ids, batch.positions, batch.sequences()};
            pass.saved = &saved;
            Tensor h = counted.forward(pass);
            counted.backward(pass, scratch.tensor(o.act, {n, spec.hidden}));
            (void)h;
            CHECK(phase.high_water() == counted.saved_bytes(n));

            const double body =
                static_cast<double>(spec.parameters() - spec.vocab * spec.hidden - 5 * spec.hidden);
            CHECK(shape.work(OpKind::gemm).flops ==
                  6 * body * static_cast<double>(n) + (recompute ? 2 * body * static_cast<double>(n) : 0));
            const double pairs = 33 * 34 / 2 + 90 * 91 / 2;
            CHECK(shape.work(OpKind::attention).flops == (recompute ? 2 : 1) * 2 * 4 * pairs * 32);

            Tiny real(spec, o);
            PackedBatch warm;
            warm.add(tokens(8, 3));
            real.calibrate(warm);
            Memory exact(scratch.high_water()), kept(phase.high_water());
            Saved used(kept.arena);
            Pass p{device(), exact.arena, batch.ids, batch.positions, batch.sequences()};
            p.saved = &used;
            real.model.forward(p);
            Tensor d = exact.arena.tensor(o.act, {n, spec.hidden});
            device().zero(d);
            real.model.backward(p, d);
            CHECK(exact.arena.high_water() == scratch.high_water());
            // A layer that falls back to bf16 still fits.
            if (o.kv.format == DType::e4m3) real.model.kv_scales().fall_back(1);
            exact.arena.reset();
            kept.arena.reset();
            real.model.forward(p);
            real.model.backward(p, exact.arena.tensor(o.act, {n, spec.hidden}));
            CHECK(kept.arena.high_water() == phase.high_water());
            CHECK(real.weights.arena.used() == weights.used());
        }
}

TEST_CASE("A differing rollout precision has its own weights and scales; training does not see them") {
    const ModelSpec spec = tiny_spec();
    ModelOptions o = options_of(spec, rules_of(PrecisionMode::bf16));
    o.differs_in_rollout = true;
    o.rollout_precision = options_of(spec, rules_of(PrecisionMode::per_tensor)).precision;
    Tiny tiny(spec, o), plain(spec, rules_of(PrecisionMode::bf16)),
        fp8(spec, rules_of(PrecisionMode::per_tensor));
    PackedBatch batch;
    batch.add(tokens(40, 1));
    CHECK(same_bits(tiny.hidden(batch), plain.hidden(batch)));
    auto rollout = [&](Tiny& t, bool calibrate) {
        auto scope = t.scratch.arena.scope();
        Pass p = t.pass(batch);
        p.in_rollout = true;
        p.calibrate = calibrate;
        return download(t.model.forward(p));
    };
    for (Tiny* t : {&tiny, &fp8}) {
        rollout(*t, true);
        t->model.begin_step();
    }
    CHECK(same_bits(rollout(tiny, false), rollout(fp8, false)));
    CHECK_FALSE(same_bits(rollout(tiny, false), tiny.hidden(batch)));
}

TEST_CASE("Rows beyond the vocabulary, the context or their sequences are refused") {
    Tiny tiny(tiny_spec(), rules_of(PrecisionMode::bf16));
    PackedBatch batch;
    batch.add(std::vector<int32_t>{1, 64});
    CHECK_THROWS_AS(tiny.hidden(batch), Error);
    batch.clear();
    batch.add(tokens(1025, 1));
    CHECK_THROWS_AS(tiny.hidden(batch), Error);
    batch.clear();
    CHECK_THROWS_AS(batch.add({}), Error);
    CHECK_THROWS_AS(tiny.hidden(batch), Error);
}

}  // namespace
}  // namespace fp8rl
