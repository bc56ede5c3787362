// fp8rl generate: completions of prompts from a model file or a trained checkpoint, streamed to stdout.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "apps/commands.h"
#include "core/text.h"
#include "io/json.h"
#include "rl/rollouts.h"
#include "rl/session.h"
#include "rl/settings.h"
#include "run/log.h"
#include "run/time_limit.h"

namespace fp8rl::apps {
namespace {

struct Arguments {
    std::string source, checkpoint, precision = "blockwise", kv_cache = "bf16", system;
    std::vector<std::string> overrides, prompts, stop;
    int64_t max_new_tokens = 256, top_k = 0, samples = 1;
    double temperature = 1, top_p = 1;
    uint64_t seed = 1;
    bool plain = false, json = false, ignore_eos = false;
};

Recipe recipe_of(const Arguments& a) {
    const bool is_recipe = a.source.ends_with(".yaml") || a.source.ends_with(".yml");
    if (is_recipe) return load_recipe(a.source, a.overrides).recipe;
    std::string text =
        cat("name: generate\nmodel: {path: ", Json(a.source).dump(), "}\nprecision: {recipe: ", a.precision,
            ", kv_cache: {format: ", a.kv_cache, "}}\n");
    return parse_recipe(text, "command line", a.overrides).recipe;
}

int generate(Arguments a) {
    Recipe recipe = recipe_of(a);
    if (a.prompts.empty())
        for (std::string line; std::getline(std::cin, line);)
            if (!text::trim(line).empty()) a.prompts.push_back(line);
    if (a.prompts.empty()) refuse("no prompt: give --prompt or lines on standard input");
    if (a.samples < 1) refuse("--samples ", a.samples, ": at least 1");
    if (a.max_new_tokens < 1) refuse("--max-new-tokens ", a.max_new_tokens, ": at least 1");
    recipe.rollout.prompts = static_cast<int64_t>(a.prompts.size());
    recipe.rollout.samples = a.samples;
    recipe.rollout.max_new_tokens = a.max_new_tokens;

    rl::ModelSource probe(recipe.model);
    rl::PromptEncoder probe_encoder(*probe.tokenizer);
    const bool chat = !a.plain && probe_encoder.has_template();
    std::vector<std::vector<int32_t>> prompts;
    size_t longest = 0;
    for (const auto& p : a.prompts) {
        std::vector<rl::Message> messages;
        if (!a.system.empty()) messages.push_back({"system", a.system});
        messages.push_back({"user", p});
        prompts.push_back(chat ? probe_encoder.encode_chat(messages) : probe_encoder.encode_plain(p));
        longest = std::max(longest, prompts.back().size());
    }
    if (static_cast<int64_t>(longest) + a.max_new_tokens > probe.spec.max_position)
        refuse("a prompt of ", longest, " tokens and --max-new-tokens ", a.max_new_tokens,
               " exceed the model's ", probe.spec.max_position, " positions");

    auto backend = open_device(recipe);
    rl::Session session(recipe, *backend, rl::Session::Purpose::generate, static_cast<int64_t>(longest));
    session.load();
    if (!a.checkpoint.empty())
        restore_from(session, a.checkpoint);
    else
        calibrate_on(session, prompts);

    SamplingConfig s = session.rollout_sampling();
    s.temperature = static_cast<float>(a.temperature);
    s.top_p = static_cast<float>(a.top_p);
    s.top_k = static_cast<int32_t>(a.top_k);
    s.max_new_tokens = a.max_new_tokens;
    s.seed = a.seed;
    s.ignore_eos = a.ignore_eos;
    s.stop_strings = a.stop;
    std::vector<Request> requests;
    for (size_t p = 0; p < prompts.size(); ++p)
        for (int32_t k = 0; k < a.samples; ++k) requests.push_back({static_cast<int32_t>(p), k, prompts[p]});

    // One completion streams; several would interleave, so each is printed when it is whole.
    const bool stream = requests.size() == 1 && !a.json;
    StreamDecoder decoder(*session.source().tokenizer);
    RolloutCallbacks callbacks;
    if (stream)
        callbacks.on_token = [&](size_t, const Sampled& t) {
            std::string piece = decoder.push(t.id);
            std::fwrite(piece.data(), 1, piece.size(), stdout);
            std::fflush(stdout);
        };
    rl::Session::Rollout stage(session);
    auto episodes = stage.engine().generate(requests, s, 0, callbacks);
    if (stream) std::printf("%s\n", decoder.finish().c_str());
    for (size_t i = 0; !stream && i < episodes.size(); ++i) {
        const Episode& e = episodes[i];
        std::string completion = rl::completion_text(*session.source().tokenizer, e);
        double logp = 0;
        for (float x : e.logp) logp += x;
        if (a.json) {
            Json line = Json::object();
            line.set("prompt", a.prompts[static_cast<size_t>(e.prompt_index)])
                .set("sample", int64_t{e.sample_index});
            line.set("completion", completion).set("finish", name_of(e.finish));
            line.set("tokens", static_cast<int64_t>(e.tokens.size())).set("logp", logp);
            std::printf("%s\n", line.dump().c_str());
        } else {
            std::printf("%s\n", completion.c_str());
        }
    }
    const auto& c = stage.engine().counters();
    run::log::info(cat(c.prefill_tokens, " prompt tokens, ", c.decode_tokens, " generated in ",
                       text::human_seconds(c.seconds), ", ",
                       text::human_count(static_cast<double>(c.decode_tokens) / std::max(1e-9, c.seconds)),
                       " tokens/s"));
    return 0;
}

}  // namespace

Action add_generate(CLI::App& app) {
    auto a = std::make_shared<Arguments>();
    app.add_option("MODEL", a->source, "a GGUF file, or a recipe (.yaml)")->required();
    app.add_option("--set", a->overrides, "override a recipe key (repeatable)")
        ->take_all()
        ->allow_extra_args(false);
    app.add_option("--checkpoint", a->checkpoint, "with a recipe: latest, best, or a checkpoint folder");
    app.add_option("--prompt,-p", a->prompts, "a prompt (repeatable); default: lines of standard input")
        ->allow_extra_args(false);
    app.add_option("--system", a->system, "system message of a chat");
    app.add_flag("--plain", a->plain, "continue the prompt as it stands, without the chat template");
    app.add_option("--samples,-n", a->samples, "completions per prompt")->capture_default_str();
    app.add_option("--max-new-tokens", a->max_new_tokens, "longest completion")->capture_default_str();
    app.add_option("--temperature,-t", a->temperature, "0: greedy")->capture_default_str();
    app.add_option("--top-p", a->top_p, "nucleus sampling")->capture_default_str();
    app.add_option("--top-k", a->top_k, "0: off")->capture_default_str();
    app.add_option("--stop", a->stop, "string that ends a completion (repeatable)")->allow_extra_args(false);
    app.add_option("--seed", a->seed, "of the draws")->capture_default_str();
    app.add_option("--precision", a->precision,
                   "bf16, per_tensor, blockwise or mxfp8; a recipe brings its own")
        ->capture_default_str();
    app.add_option("--kv-cache", a->kv_cache, "bf16 or fp8; a recipe brings its own")->capture_default_str();
    app.add_flag("--ignore-eos", a->ignore_eos, "always write max-new-tokens");
    app.add_flag("--json", a->json, "JSON lines");
    return [a] { return generate(*a); };
}

}  // namespace fp8rl::apps
