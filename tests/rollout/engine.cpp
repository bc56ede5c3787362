// Claims about the engine beside exactness: callbacks, ends of completions, limits, counters, and scratch.
#include <map>

#include "backend/shape.h"
#include "rollout/refusal.h"
#include "rollout/tiny_rollout.h"

using namespace fp8rl;
using test::TinyRollout;

namespace {

PrecisionRules blockwise() { return test::rules_of(PrecisionMode::blockwise); }

}  // namespace

TEST_CASE("tokens stream in order and each episode is reported once, complete") {
    TinyRollout r(blockwise(), {5, 18}, 4, 15);
    KvCache cache(test::device(), r.spec, r.model.kv_scales(), 64);
    cache.reserve(r.phase.arena);
    Engine engine(r.model, cache, r.scratch.arena, {{3, 7, true}, 64});
    std::map<size_t, std::vector<int32_t>> streamed;
    std::map<size_t, int> finished;
    RolloutCallbacks callbacks;
    callbacks.on_token = [&](size_t i, const Sampled& s) { streamed[i].push_back(s.id); };
    callbacks.on_finish = [&](size_t i, const Episode& e) {
        ++finished[i];
        CHECK(e.tokens == streamed[i]);
    };
    auto episodes = engine.generate(r.requests, r.sampling, 1, callbacks);
    REQUIRE(episodes.size() == 8);
    int64_t tokens = 0;
    for (size_t i = 0; i < episodes.size(); ++i) {
        CHECK(finished[i] == 1);
        CHECK(episodes[i].tokens == streamed[i]);
        CHECK(episodes[i].prompt == r.prompts[i / 4]);
        CHECK(episodes[i].prompt_index == int32_t(i / 4));
        CHECK(episodes[i].sample_index == int32_t(i % 4));
        tokens += int64_t(streamed[i].size());
    }
    CHECK(engine.counters().decode_tokens == tokens);
    CHECK(engine.counters().prefill_tokens == 5 + 18);
    CHECK(engine.counters().shared_tokens == 3 * (5 + 18));
    CHECK(engine.counters().max_pages <= 64);
    CHECK(engine.counters().seconds > 0);
    CHECK(r.scratch.arena.used() == 0);
}

TEST_CASE("a stop id ends a completion and is its last token; a stop string does the same; else the length") {
    TinyRollout r(blockwise(), {6}, 16, 30);
    auto stops = r.sampling.stop_ids;
    auto is_stop = [&](int32_t id) { return std::binary_search(stops.begin(), stops.end(), id); };
    auto by_ids = r.run();
    r.sampling.ignore_eos = true;
    auto full = r.run();
    size_t stopped = 0;
    for (size_t i = 0; i < by_ids.size(); ++i) {
        // The same draws, cut after the first stop.
        auto first = std::find_if(full[i].tokens.begin(), full[i].tokens.end(), is_stop);
        std::vector<int32_t> expected(full[i].tokens.begin(),
                                      first == full[i].tokens.end() ? first : std::next(first));
        CHECK(full[i].tokens.size() == 30);
        CHECK(full[i].finish == Finish::length);
        CHECK(by_ids[i].tokens == expected);
        CHECK(by_ids[i].finish == (first == full[i].tokens.end() ? Finish::length : Finish::stop));
        stopped += by_ids[i].finish == Finish::stop;
    }
    CHECK(stopped > 0);
    // Each id decodes to two letters; the string spans the border of two tokens of the first completion.
    auto letters = [](int32_t id) { return std::string{char('a' + id / 26), char('a' + id % 26)}; };
    std::vector<std::string> texts;
    for (int32_t id = 0; id < r.spec.vocab; ++id) texts.push_back(letters(id));
    r.sampling.ignore_eos = false;
    r.sampling.stop_ids = {};
    r.sampling.decode = [&](int32_t id) -> std::string_view { return texts[size_t(id)]; };
    std::string a = texts[size_t(full[0].tokens[7])], b = texts[size_t(full[0].tokens[8])];
    r.sampling.stop_strings = {a.substr(1) + b};
    auto by_string = r.run();
    std::string all;
    size_t kept = 0;
    while (all.find(r.sampling.stop_strings[0]) == std::string::npos)
        all += texts[size_t(full[0].tokens[kept++])];
    CHECK(kept <= 9);
    CHECK(by_string[0].tokens ==
          std::vector<int32_t>(full[0].tokens.begin(), full[0].tokens.begin() + std::ptrdiff_t(kept)));
    CHECK(by_string[0].finish == Finish::stop);
}

TEST_CASE("a completion ends with the model's last position, and a prompt without room is refused by name") {
    ModelSpec spec = test::rollout_spec();
    spec.max_position = 32;
    TinyRollout r(blockwise(), {28}, 2, 10, spec);
    r.sampling.ignore_eos = true;
    for (const auto& e : r.run()) {
        CHECK(e.tokens.size() == 4);
        CHECK(e.finish == Finish::length);
    }
    auto long_prompt = test::tokens(32, 9, spec.vocab);
    std::vector<Request> requests{{5, 0, long_prompt}};
    std::string m = test::refusal([&] { r.run({}, requests); });
    CHECK(test::has(m, "prompt 5 has 32 tokens"));
    CHECK(test::has(m, "32 positions"));
    m = test::refusal([&] { r.run({4, 16, 1, true}); });
    CHECK(test::has(m, "need 2 pages"));
}

TEST_CASE("scratch counted before the run is what the run uses at most, and no more than needed") {
    for (auto mode : {PrecisionMode::bf16, PrecisionMode::blockwise, PrecisionMode::mxfp8}) {
        auto rules = test::rules_of(mode);
        rules.kv_cache.format = CacheFormat::fp8;
        TinyRollout r(rules, {40, 40, 40, 40, 40, 40, 40, 40}, 1, 8);
        EngineConfig config{{8, 64, true}, 8};
        ShapeBackend shape(test::device());
        Model model(shape, r.spec, test::options_of(r.spec, rules));
        Arena weights = Arena::counting("weights"), phase = Arena::counting("phase");
        Arena counted = Arena::counting("scratch");
        model.reserve(weights);
        model.kv_scales().mark_calibrated();
        KvCache imagined(shape, r.spec, model.kv_scales(), 64);
        imagined.reserve(phase);
        Engine::count_scratch(model, imagined, counted, config, 48);

        auto scope = r.phase.arena.scope();
        KvCache cache(test::device(), r.spec, r.model.kv_scales(), 64);
        cache.reserve(r.phase.arena);
        test::Memory own(counted.high_water());
        Engine engine(r.model, cache, own.arena, config);
        r.sampling.ignore_eos = true;
        engine.generate(r.requests, r.sampling, 1);
        CHECK(own.arena.high_water() <= counted.high_water());
        CHECK(double(own.arena.high_water()) > 0.8 * double(counted.high_water()));
    }
}

TEST_CASE("calibration sees every prompt: the size of its passes and prompts given twice change no scale") {
    auto rules = blockwise();
    rules.kv_cache.format = CacheFormat::fp8;
    TinyRollout r(rules, {12, 30, 7}, 1, 4);
    std::vector<std::span<const int32_t>> views(r.prompts.begin(), r.prompts.end());
    auto scales_after = [&](std::span<const std::span<const int32_t>> prompts, int64_t micro_tokens) {
        TinyRollout fresh(rules, {3}, 1, 4);  // its constructor calibrates on another prompt
        int64_t tokens = 0;
        for (auto p : prompts) tokens += int64_t(p.size());
        CHECK(calibrate(fresh.model, fresh.scratch.arena, prompts, micro_tokens).tokens == tokens);
        CHECK(fresh.scratch.arena.used() == 0);
        auto all = test::download(fresh.model.kv_scales().k_scale);
        for (float x : test::download(fresh.model.kv_scales().v_scale)) all.push_back(x);
        return all;
    };
    auto whole = scales_after(views, 1000);
    CHECK(test::same_bits(scales_after(views, 1), whole));
    CHECK(test::same_bits(scales_after(views, 20), whole));
    CHECK_FALSE(test::same_bits(scales_after(std::span(views).first(1), 1000), whole));
    views.insert(views.end(), r.prompts.begin(), r.prompts.end());
    CHECK(test::same_bits(scales_after(views, 64), whole));
    std::vector<std::span<const int32_t>> none{{}};
    CHECK(test::has(test::refusal([&] { calibrate(r.model, r.scratch.arena, none, 8); }), "no tokens"));
}

TEST_CASE("recalibration on prompts forgets what training observed, and runs the reduction over ranks") {
    auto rules = blockwise();
    rules.kv_cache.format = CacheFormat::fp8;
    auto scales_after = [&](bool train_first) {
        TinyRollout r(rules, {12, 30}, 1, 4);
        if (train_first) {
            auto scope = r.scratch.arena.scope();
            PackedBatch batch;
            batch.add(test::tokens(300, 77, r.spec.vocab));
            Pass pass{test::device(), r.scratch.arena, batch.ids, batch.positions, batch.sequences()};
            pass.observe = true;
            r.model.forward(pass);
        }
        auto before = test::download(r.model.kv_scales().k_amax);
        CHECK((*std::max_element(before.begin(), before.end()) > 0) == train_first);
        std::vector<std::span<const int32_t>> views(r.prompts.begin(), r.prompts.end());
        int reduced = 0;
        Calibration c = recalibrate(r.model, r.scratch.arena, views, 20, [&] { ++reduced; });
        CHECK(reduced == 2);
        CHECK(c.passes == 2);
        // 300 random tokens saturate scales made from 42: the guard's word is passed on.
        CHECK(c.fallbacks.empty() != train_first);
        // Layer 0: its K and V come before any cache is read, so its maxima are those of the prompts alone.
        auto k = test::download(r.model.kv_scales().k_scale), v = test::download(r.model.kv_scales().v_scale);
        k.resize(size_t(r.spec.kv_heads));
        k.insert(k.end(), v.begin(), v.begin() + r.spec.kv_heads);
        return k;
    };
    CHECK(test::same_bits(scales_after(true), scales_after(false)));
}
