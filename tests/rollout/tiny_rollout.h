// A tiny model with random weights and its rollouts, and the same log-probs from a forward as training runs
// it.
#pragma once
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "nn/tiny.h"
#include "rollout/calibration.h"
#include "rollout/engine.h"

namespace fp8rl::test {

inline ModelSpec rollout_spec() {
    ModelSpec s;
    s.vocab = 264;
    s.hidden = 64;
    s.layers = 2;
    s.heads = 4;
    s.kv_heads = 2;
    s.head_dim = 16;
    s.ffn = 96;
    s.max_position = 1024;
    return s;
}

// A precision of the exactness promise.
struct Mode {
    std::string name;
    PrecisionRules rules;
};

inline std::vector<Mode> linear_modes() {
    std::vector<Mode> modes;
    auto add = [&](std::string name, PrecisionMode mode) -> PrecisionRules& {
        modes.push_back({std::move(name), rules_of(mode)});
        return modes.back().rules;
    };
    add("bf16", PrecisionMode::bf16);
    add("blockwise", PrecisionMode::blockwise);
    add("blockwise pow2", PrecisionMode::blockwise).pow2_scales = true;
    add("mxfp8", PrecisionMode::mxfp8);
    add("per_tensor delayed", PrecisionMode::per_tensor);
    PrecisionRules& fixed = add("per_tensor static", PrecisionMode::per_tensor);
    fixed.per_tensor.scaling = Scaling::fixed;
    fixed.per_tensor.static_scale = 0.02;
    return modes;
}

inline std::vector<Mode> with_caches(const std::vector<Mode>& modes) {
    std::vector<Mode> all;
    for (const Mode& m : modes)
        for (int cache = 0; cache < 3; ++cache) {
            all.push_back(m);
            if (cache >= 1)
                all.back().rules.kv_cache.format = CacheFormat::fp8, all.back().name += ", FP8 KV";
            if (cache == 2)
                all.back().rules.attention = CacheFormat::fp8, all.back().name += " and attention";
        }
    return all;
}

struct Schedule {
    int64_t slots = 64, chunk = 512, pages = 256;
    bool sharing = true;
};

inline ModelOptions options_with(const ModelSpec& spec, const PrecisionRules& rules,
                                 const PrecisionRules* rollout_rules) {
    ModelOptions o = options_of(spec, rules);
    if (rollout_rules) {
        o.rollout_precision = options_of(spec, *rollout_rules).precision;
        o.differs_in_rollout = true;
    }
    return o;
}

struct TinyRollout {
    ModelSpec spec;
    Memory weights{16 << 20}, scratch{96 << 20}, phase{16 << 20};
    Model model;
    std::vector<std::vector<int32_t>> prompts;
    std::vector<Request> requests;
    SamplingConfig sampling;
    RolloutCounters counters;

    TinyRollout(const PrecisionRules& rules, const std::vector<int64_t>& prompt_lengths, int samples,
                int64_t max_new, ModelSpec s = rollout_spec(), const PrecisionRules* rollout_rules = nullptr)
        : spec(s), model(device(), spec, options_with(spec, rules, rollout_rules)) {
        model.reserve(weights.arena);
        model.initialize(5, 0.15);  // sharper than training's start: logits with a say
        model.prepare();
        for (size_t p = 0; p < prompt_lengths.size(); ++p)
            prompts.push_back(tokens(prompt_lengths[p], uint32_t(p), spec.vocab));
        for (size_t p = 0; p < prompts.size(); ++p)
            for (int32_t i = 0; i < samples; ++i) requests.push_back({int32_t(p), i, prompts[p]});
        sampling.max_new_tokens = max_new;
        for (int32_t id = 0; id < spec.vocab; id += 20) sampling.stop_ids.push_back(id);
        std::vector<std::span<const int32_t>> views(prompts.begin(), prompts.end());
        calibrate(model, scratch.arena, views, 64);
    }

    // Pages full of NaN: nothing may depend on what an earlier rollout left in the cache.
    std::vector<Episode> run(const Schedule& schedule, std::span<const Request> wanted, uint32_t step = 1) {
        auto scope = phase.arena.scope();
        KvCache cache(device(), spec, model.kv_scales(), schedule.pages);
        size_t before = phase.arena.used();
        cache.reserve(phase.arena);
        char* end = static_cast<char*>(phase.arena.allocate(0));
        size_t bytes = phase.arena.used() - before;
        std::memset(end - bytes, 0xff, bytes);
        Engine engine(model, cache, scratch.arena, {{schedule.slots, schedule.chunk, schedule.sharing}, 5});
        auto episodes = engine.generate(wanted, sampling, step);
        counters = engine.counters();
        return episodes;
    }
    std::vector<Episode> run(const Schedule& schedule = {}) { return run(schedule, requests); }

    struct LogProbs {
        std::vector<float> logp, entropy;
        std::vector<int32_t> best;  // argmax of the logits
    };
    // As training computes them: whole sequences packed, `at_once` of them, no cache.
    std::vector<LogProbs> train_side(const std::vector<Episode>& episodes, size_t at_once) {
        std::vector<LogProbs> all;
        for (size_t first = 0; first < episodes.size(); first += at_once) {
            auto scope = scratch.arena.scope();
            PackedBatch batch;
            std::vector<int32_t> rows, targets;
            std::vector<float> cutoffs;
            size_t last = std::min(episodes.size(), first + at_once);
            for (size_t i = first; i < last; ++i) {
                const Episode& e = episodes[i];
                std::vector<int32_t> ids = e.prompt;
                ids.insert(ids.end(), e.tokens.begin(), e.tokens.end());
                for (size_t t = 0; t < e.tokens.size(); ++t)
                    rows.push_back(int32_t(size_t(batch.rows()) + e.prompt.size() + t - 1));
                targets.insert(targets.end(), e.tokens.begin(), e.tokens.end());
                cutoffs.insert(cutoffs.end(), e.cutoff.begin(), e.cutoff.end());
                batch.add(ids);
            }
            Pass pass{device(), scratch.arena, batch.ids, batch.positions, batch.sequences()};
            Tensor hidden = model.forward(pass);
            int64_t n = int64_t(rows.size());
            Tensor picked = scratch.arena.tensor(hidden.dtype, {n, spec.hidden});
            device().gather_rows(picked, hidden, rows);
            Tensor logp = scratch.arena.tensor(DType::f32, {n}),
                   entropy = scratch.arena.tensor(DType::f32, {n});
            Tensor lse = scratch.arena.tensor(DType::f32, {n});
            device().token_logprob(logp, entropy, lse, picked, model.head(false), targets, cutoffs,
                                   sampling.logprob_temperature());
            Tensor logits = scratch.arena.tensor(DType::f32, {n, spec.vocab});
            device().logits(logits, picked, model.head(false));
            auto l = download(logp), h = download(entropy), z = download(logits);
            size_t at = 0;
            for (size_t i = first; i < last; ++i) {
                LogProbs p;
                for (size_t t = 0; t < episodes[i].tokens.size(); ++t, ++at) {
                    p.logp.push_back(l[at]);
                    p.entropy.push_back(h[at]);
                    auto row = z.begin() + std::ptrdiff_t(at * size_t(spec.vocab));
                    p.best.push_back(int32_t(std::max_element(row, row + spec.vocab) - row));
                }
                all.push_back(std::move(p));
            }
        }
        return all;
    }
};

inline bool same(const Episode& a, const Episode& b) {
    return a.prompt_index == b.prompt_index && a.sample_index == b.sample_index && a.prompt == b.prompt &&
           a.tokens == b.tokens && same_bits(a.logp, b.logp) && same_bits(a.entropy, b.entropy) &&
           same_bits(a.cutoff, b.cutoff) && a.finish == b.finish;
}

inline bool same(const std::vector<Episode>& a, const std::vector<Episode>& b) {
    bool equal = a.size() == b.size();
    for (size_t i = 0; equal && i < a.size(); ++i) equal = same(a[i], b[i]);
    return equal;
}

// Recorded numbers against training's, every token.
inline void check_exact(TinyRollout& r, const std::vector<Episode>& episodes, size_t at_once) {
    auto train = r.train_side(episodes, at_once);
    size_t tokens = 0;
    for (size_t i = 0; i < episodes.size(); ++i) {
        CAPTURE(i, at_once);
        CHECK(same_bits(episodes[i].logp, train[i].logp));
        CHECK(same_bits(episodes[i].entropy, train[i].entropy));
        tokens += episodes[i].tokens.size();
    }
    CHECK(tokens > 0);
}

}  // namespace fp8rl::test
