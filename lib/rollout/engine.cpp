// rollout/engine: forwards, draws, episodes.
#include "rollout/engine.h"

#include <algorithm>
#include <chrono>

namespace fp8rl {

Engine::Engine(Model& model, KvCache& cache, Arena& scratch, const EngineConfig& config)
    : model_(model), cache_(cache), scratch_(scratch), config_(config) {
    check(config.schedule.slots >= 1 && config.schedule.chunk >= 1 && config.logit_rows >= 1,
          "rollout engine: slots, chunk and logit rows are at least 1");
    size_t slots = static_cast<size_t>(config.schedule.slots);
    rows_.reserve(slots);
    params_.reserve(slots);
    drawn_.reserve(slots);
}

Tensor Engine::forward(const Iteration& it) {
    for (auto [to, from] : it.copies) cache_.copy_page(to, from);
    if (it.rows() == 0) return {};
    Pass pass{model_.backend(), scratch_, it.ids, it.positions, it.sequences};
    pass.cache = &cache_;
    pass.in_rollout = true;
    pass.observe = model_.options().differs_in_rollout;  // scales that training never sees
    return model_.forward(pass);
}

// Rows of draws [first, first + count): hidden itself where they lie there in order (every iteration that
// only decodes), else copies. Draws of the kept row come last.
Tensor Engine::gather(const Iteration& it, Tensor hidden, size_t first, size_t count) {
    Backend& backend = model_.backend();
    rows_.clear();
    for (size_t i = first; i < first + count && it.draws[i].row != Iteration::kept; ++i)
        rows_.push_back(it.draws[i].row);
    bool in_order = rows_.size() == count;
    for (size_t i = 1; i < rows_.size(); ++i) in_order &= rows_[i] == rows_[0] + static_cast<int32_t>(i);
    if (in_order) return hidden.row_range(rows_[0], static_cast<int64_t>(count));
    Tensor out = scratch_.tensor(kept_.dtype, {static_cast<int64_t>(count), kept_.cols()});
    int64_t fresh = static_cast<int64_t>(rows_.size());
    if (fresh > 0) backend.gather_rows(out.row_range(0, fresh), hidden, rows_);
    for (int64_t i = fresh; i < out.rows(); ++i) backend.copy(out.row_range(i, 1), kept_);
    return out;
}

void Engine::draw(const Iteration& it, Tensor hidden, std::span<const Request> requests,
                  const SamplingConfig& sampling, uint32_t step, const std::vector<Episode>& episodes) {
    const Weight& head = model_.head(true);
    size_t total = it.draws.size();
    params_.clear();
    drawn_.resize(total);
    for (const auto& d : it.draws) {
        size_t r = static_cast<size_t>(d.request);
        params_.push_back(
            sample_params(sampling, step, requests[r], static_cast<int64_t>(episodes[r].tokens.size())));
    }
    for (size_t first = 0; first < total;) {
        size_t count = std::min(total - first, static_cast<size_t>(config_.logit_rows));
        auto scope = scratch_.scope();
        Tensor rows = gather(it, hidden, first, count);
        Tensor logits = scratch_.tensor(DType::f32, {static_cast<int64_t>(count), head.out});
        model_.backend().logits(logits, rows, head);
        model_.backend().sample(std::span(drawn_).subspan(first, count), logits,
                                std::span(params_).subspan(first, count));
        first += count;
    }
}

std::vector<Episode> Engine::generate(std::span<const Request> requests, const SamplingConfig& sampling,
                                      uint32_t step, const RolloutCallbacks& callbacks) {
    auto begin = std::chrono::steady_clock::now();
    validate(sampling);
    const ModelSpec& spec = model_.spec();
    std::vector<Episode> episodes(requests.size());
    std::vector<int64_t> limits(requests.size());
    std::vector<std::string> tails(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
        const Request& r = requests[i];
        int64_t prompt = static_cast<int64_t>(r.prompt.size());
        limits[i] = std::min(sampling.max_new_tokens, spec.max_position - prompt);
        if (limits[i] < 1)
            refuse("rollout: prompt ", r.prompt_index, " has ", prompt, " tokens; the model has ",
                   spec.max_position, " positions and a completion needs at least one");
        episodes[i].prompt_index = r.prompt_index;
        episodes[i].sample_index = r.sample_index;
        episodes[i].prompt.assign(r.prompt.begin(), r.prompt.end());
    }
    StopRule stop(sampling);
    Scheduler scheduler(requests, episodes, limits, cache_.pages(), config_.schedule);
    auto whole = scratch_.scope();
    kept_ = scratch_.tensor(model_.options().act, {1, spec.hidden});
    Iteration it;
    while (scheduler.plan(it)) {
        auto scope = scratch_.scope();
        Tensor hidden = forward(it);
        if (!it.draws.empty()) draw(it, hidden, requests, sampling, step, episodes);
        if (it.keep_row != Iteration::kept) model_.backend().copy(kept_, hidden.row_range(it.keep_row, 1));
        for (size_t d = 0; d < it.draws.size(); ++d) {
            size_t r = static_cast<size_t>(it.draws[d].request);
            const Sampled& s = drawn_[d];
            Episode& e = episodes[r];
            e.tokens.push_back(s.id);
            e.logp.push_back(s.logp);
            e.entropy.push_back(s.entropy);
            if (sampling.truncates()) e.cutoff.push_back(s.cutoff);
            if (callbacks.on_token) callbacks.on_token(r, s);
            auto finish = stop.after(s.id, static_cast<int64_t>(e.tokens.size()), limits[r], tails[r]);
            if (!finish) continue;
            e.finish = *finish;
            scheduler.finish(static_cast<int32_t>(r));
            if (callbacks.on_finish) callbacks.on_finish(r, e);
        }
    }
    static_cast<SchedulerCounters&>(counters_) = scheduler.counters();
    counters_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return episodes;
}

void Engine::count_scratch(Model& model, KvCache& cache, Arena& scratch, const EngineConfig& config,
                           int64_t max_tokens) {
    check(scratch.is_counting(), "rollout engine: scratch is counted on a counting arena");
    // As many slots prefill as a whole chunk takes, the others decode their last position.
    int32_t slots = static_cast<int32_t>(config.schedule.slots), length = static_cast<int32_t>(max_tokens);
    int64_t budget = std::min(config.schedule.chunk, slots * max_tokens);
    int32_t prefilling = static_cast<int32_t>((budget + length - 1) / length);
    std::vector<int32_t> table(static_cast<size_t>(pages_for(max_tokens)));
    for (size_t p = 0; p < table.size(); ++p) table[p] = static_cast<int32_t>(p);
    Iteration it;
    for (int32_t s = 0; s < slots; ++s) {
        int32_t rows = 1;
        if (s >= slots - prefilling) {
            rows = static_cast<int32_t>(std::min<int64_t>(budget, length));
            budget -= rows;
        }
        int32_t past = length - rows;
        it.sequences.push_back({static_cast<int32_t>(it.rows()), rows, past, table.data()});
        for (int32_t p = 0; p < rows; ++p) {
            it.ids.push_back(0);
            it.positions.push_back(past + p);
        }
    }
    Engine engine(model, cache, scratch, config);
    auto whole = scratch.scope();
    engine.kept_ = scratch.tensor(model.options().act, {1, model.spec().hidden});
    engine.forward(it);
    int64_t rows = std::min<int64_t>(config.logit_rows, slots);
    scratch.tensor(engine.kept_.dtype, {rows, engine.kept_.cols()});
    scratch.tensor(DType::f32, {rows, model.head(true).out});
}

}  // namespace fp8rl
