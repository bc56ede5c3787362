#include "plan/plan.h"

#include <algorithm>
#include <vector>

#include "backend/shape.h"
#include "core/text.h"
#include "rollout/budget.h"

namespace fp8rl {
namespace {

ModelOptions model_options(const Recipe& recipe, const ModelSpec& spec, bool train) {
    std::vector<LinearModule> modules;
    for (const auto& m : Model::linear_modules(spec)) modules.push_back({m.name, m.layer});
    const Precision& p = recipe.precision;
    if (p.rollout && !(p.rollout->kv_cache == p.train.kv_cache && p.rollout->attention == p.train.attention))
        refuse(
            "precision.rollout.kv_cache and .attention: must be those of precision, or left out; rollout "
            "and training share one cache");
    if (p.rollout && (p.rollout->recipe == PrecisionMode::fp32) != (p.train.recipe == PrecisionMode::fp32))
        refuse("precision.rollout.recipe: fp32 goes with fp32 only");
    ModelOptions o;
    o.precision = PrecisionTable(p.train, modules, spec.layers);
    o.rollout_precision = PrecisionTable(p.for_rollout(), modules, spec.layers);
    o.differs_in_rollout = p.rollout && !(*p.rollout == p.train);
    o.kv.format = o.precision.cache_type();
    o.kv.fp8_attention = p.train.attention == CacheFormat::fp8;
    o.kv.margin = static_cast<float>(p.train.kv_cache.margin);
    o.kv.max_saturated = static_cast<float>(p.train.kv_cache.max_saturated);
    o.act = o.precision.compute_type();
    o.train = train;
    o.moments = recipe.optimizer.moments == MomentType::bf16 ? DType::bf16 : DType::f32;
    o.recompute_block = recipe.train.recompute == Recompute::block;
    return o;
}

// Lengths of the sequences that need the most memory in a micro-batch: as many as there may be, since each
// one's last page is partly empty.
std::vector<int64_t> worst_lengths(int64_t rows, int64_t sequences, int64_t longest) {
    std::vector<int64_t> lengths(static_cast<size_t>(std::clamp<int64_t>(sequences, 1, rows)), 1);
    int64_t left = rows - static_cast<int64_t>(lengths.size());
    for (size_t i = 0; left > 0; ++i) {
        if (i == lengths.size()) lengths.push_back(1), --left;
        int64_t more = std::min(left, longest - 1);
        lengths[i] += more;
        left -= more;
    }
    return lengths;
}

int64_t most_sequences(const Recipe& r) {
    if (r.algorithm.name == AlgorithmName::sft) return r.algorithm.batch;
    return std::max(r.rollout.prompts * r.rollout.samples, r.warmup.steps > 0 ? r.warmup.batch : 0);
}

}  // namespace

Plan make_plan(const Recipe& recipe, const ModelSpec& spec, int64_t longest_prompt, const Backend& layouts,
               bool train, UpdateShape update) {
    Plan p;
    p.spec = spec;
    p.train = train;
    p.options = model_options(recipe, spec, train);
    p.exactness = exactness(p.options.precision, p.options.rollout_precision);
    p.reference = train && recipe.algorithm.kl.beta > 0;
    p.max_prompt_tokens = longest_prompt;
    p.max_sequence = longest_prompt + recipe.rollout.max_new_tokens;
    if (p.max_sequence > spec.max_position)
        refuse("rollout.max_new_tokens: prompts of ", longest_prompt, " tokens and ",
               recipe.rollout.max_new_tokens, " new ones exceed the model's ", spec.max_position,
               " positions");
    constexpr int64_t most_completions = 1 << 24;
    if (recipe.rollout.prompts * recipe.rollout.samples > most_completions)
        refuse("rollout.prompts x rollout.samples: ", recipe.rollout.prompts, " x ", recipe.rollout.samples,
               " completions of a step are more than ", most_completions);
    p.micro_tokens = train ? recipe.train.micro_tokens : std::max(recipe.train.micro_tokens, p.max_sequence);
    if (p.max_sequence > p.micro_tokens)
        refuse("train.micro_tokens: ", p.micro_tokens, " is less than the longest sequence, ", p.max_sequence,
               " tokens (prompt ", longest_prompt, " and rollout.max_new_tokens ",
               recipe.rollout.max_new_tokens, ")");

    ShapeBackend shape(layouts);
    Model model(shape, spec, p.options);
    Arena weights = Arena::counting("weights");
    model.reserve(weights);
    model.mark_calibrated();
    p.weights = weights.high_water();
    // A model that cannot fit is not worth counting further.
    if (p.weights > layouts.memory_bytes())
        refuse("the model's weights, gradients and moments alone need ",
               text::human_bytes(static_cast<double>(p.weights)), ", this device has ",
               text::human_bytes(static_cast<double>(layouts.memory_bytes())));
    std::unique_ptr<Model> reference;
    if (p.reference) {
        ModelOptions frozen = p.options;
        frozen.train = false;
        reference = std::make_unique<Model>(shape, spec, frozen);
        Arena a = Arena::counting("reference");
        reference->reserve(a);
        reference->mark_calibrated();
        p.reference_weights = a.high_water();
    }

    Arena phase = Arena::counting("phase"), scratch = Arena::counting("scratch");
    const bool rolls_out = recipe.algorithm.name == AlgorithmName::grpo || recipe.validation.every > 0 ||
                           recipe.validation.at_start || recipe.validation.at_end || !train;
    if (rolls_out) {
        RolloutShape r;
        r.prompts = recipe.rollout.prompts;
        r.samples = recipe.rollout.samples;
        r.prompt_tokens = longest_prompt;
        r.max_new_tokens = recipe.rollout.max_new_tokens;
        r.prefix_sharing = recipe.rollout.prefix_sharing;
        const size_t page = KvCache::page_bytes(layouts, spec, p.options.kv);
        constexpr size_t automatic_cache = size_t{4} << 30;
        constexpr int64_t automatic_slots = 256;
        RolloutBudget budget = choose_budget(r, recipe.rollout.slots, recipe.rollout.kv_memory, page,
                                             automatic_cache, automatic_slots);
        // The guard may turn every layer's pages into BF16 ones, on the same bytes; one sequence still fits.
        if (p.options.kv.format == DType::e4m3 && p.options.kv.max_saturated > 0) {
            KvPrecision fallback = p.options.kv;
            fallback.format = DType::bf16;
            const size_t least =
                static_cast<size_t>(r.sequence_pages()) * KvCache::page_bytes(layouts, spec, fallback);
            if (recipe.rollout.kv_memory && static_cast<size_t>(*recipe.rollout.kv_memory) < least)
                refuse("rollout.kv_memory: ", *recipe.rollout.kv_memory, " bytes; one sequence needs ", least,
                       " once saturated layers fall back to BF16 (precision.kv_cache.max_saturated: 0 "
                       "turns that off)");
            budget.pages = std::max(budget.pages, static_cast<int64_t>((least + page - 1) / page));
        }
        p.pages = budget.pages;
        p.may_preempt = budget.may_preempt;
        p.engine.schedule = {budget.slots, recipe.rollout.chunk, recipe.rollout.prefix_sharing};
        KvCache cache(shape, spec, model.kv_scales(), p.pages);
        Arena rollout = Arena::counting("kv cache");
        cache.reserve(rollout);
        p.kv_cache = rollout.high_water();
        Engine::count_scratch(model, cache, scratch, p.engine, p.max_sequence);
    }

    // One sequence of full length tells the work of a token; the head sees completions only.
    auto forward_flops = [&](int64_t tokens, int64_t head_rows) {
        shape.clear();
        auto scope = scratch.scope();
        PackedBatch batch;
        std::vector<int32_t> ids(static_cast<size_t>(tokens), 0);
        batch.add(ids);
        Pass pass{.backend = shape,
                  .scratch = scratch,
                  .ids = batch.ids,
                  .positions = batch.positions,
                  .sequences = batch.sequences(),
                  .in_rollout = true};
        Tensor h = model.forward(pass);
        if (head_rows > 0)
            shape.logits(scratch.tensor(DType::f32, {head_rows, spec.vocab}), h.row_range(0, head_rows),
                         model.head(true));
        return shape.flops();
    };
    {
        // Measured on an arena of its own: logits of a whole sequence never exist in a run.
        Arena kept = std::move(scratch);
        scratch = Arena::counting("flops");
        const int64_t fed = p.max_sequence - 1;
        const double whole = forward_flops(fed, std::min(fed, recipe.rollout.max_new_tokens));
        const double prompt = forward_flops(longest_prompt, 0);
        const auto prompts = static_cast<double>(recipe.rollout.prompts),
                   samples = static_cast<double>(recipe.rollout.samples);
        p.rollout_flops = prompts * (recipe.rollout.prefix_sharing ? samples * whole - (samples - 1) * prompt
                                                                   : samples * whole);
        p.forward_flops_per_token = forward_flops(1, 1);
        scratch = std::move(kept);
    }
    if (train) {
        auto lengths = worst_lengths(p.micro_tokens, most_sequences(recipe), p.max_sequence - 1);
        update(model, reference.get(), phase, scratch, lengths);
        p.saved = phase.high_water();
        Arena other = Arena::counting("flops"), rest = Arena::counting("flops");
        shape.clear();
        const int64_t one[] = {p.max_sequence - 1};
        update(model, reference.get(), other, rest, one);
        p.training_flops = shape.flops() * static_cast<double>(most_sequences(recipe));
    } else {
        // Calibration before the first token.
        PackedBatch batch;
        for (int64_t n : worst_lengths(p.micro_tokens, recipe.rollout.prompts, longest_prompt))
            batch.add(std::vector<int32_t>(static_cast<size_t>(n), 0));
        Pass pass{.backend = shape,
                  .scratch = scratch,
                  .ids = batch.ids,
                  .positions = batch.positions,
                  .sequences = batch.sequences(),
                  .observe = true,
                  .calibrate = true};
        auto scope = scratch.scope();
        model.forward(pass);
    }
    p.phase = std::max(p.kv_cache, p.saved);
    p.scratch = scratch.high_water();
    p.workspace = layouts.workspace_bytes();
    return p;
}

}  // namespace fp8rl
