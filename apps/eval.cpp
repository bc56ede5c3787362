// fp8rl eval: accuracy, pass@k and cons@k on the validation problems of a recipe's task, as one JSON object.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/commands.h"
#include "rl/evaluate.h"
#include "rl/report.h"
#include "rl/session.h"
#include "rl/state.h"
#include "rollout/calibration.h"
#include "run/log.h"
#include "run/metrics.h"
#include "run/progress.h"
#include "run/run_folder.h"

namespace fp8rl::apps {

void restore_from(rl::Session& session, const std::string& which) {
    run::Checkpoints checkpoints(session.recipe().checkpoint.dir, 1);
    if (which == "latest") {
        auto found = checkpoints.find_resume();
        for (const auto& m : found.messages) run::log::warn(m);
        rl::restore_weights(session.model(), found.reader);
        run::log::info(cat("weights of ", found.reader.folder()));
        return;
    }
    std::string folder = which;
    if (which == "best") {
        auto best = checkpoints.best();
        if (!best) refuse(session.recipe().checkpoint.dir, ": no best checkpoint yet");
        folder = checkpoints.folder_of(*best);
    }
    run::CheckpointReader reader(folder);
    rl::restore_weights(session.model(), reader);
    run::log::info(cat("weights of ", folder));
}

void calibrate_on(rl::Session& session, const std::vector<std::vector<int32_t>>& prompts) {
    std::vector<std::span<const int32_t>> views(prompts.begin(), prompts.end());
    const auto done = calibrate(session.model(), session.scratch(), views, session.plan().micro_tokens);
    for (const auto& f : done.fallbacks)
        run::log::warn(cat("layer ", f.layer, ": ", f.which, " saturates; its KV cache is BF16"));
}

namespace {

struct Arguments {
    RecipeArguments recipe;
    std::string checkpoint, completions;
    int64_t samples = 0, problems = 0;
    double temperature = -1;
    std::vector<int64_t> k;
};

int eval(const Arguments& a) {
    LoadedRecipe loaded = a.recipe.load();
    Recipe& recipe = loaded.recipe;
    if (a.samples > 0) recipe.validation.samples = a.samples;
    if (a.temperature >= 0) recipe.validation.temperature = a.temperature;
    if (a.problems > 0) recipe.validation.size = a.problems;
    if (recipe.validation.samples > 1 && recipe.validation.temperature == 0)
        refuse("validation.samples: ", recipe.validation.samples,
               " greedy samples are one and the same; set --temperature above 0");
    for (int64_t k : a.k)
        if (k < 1 || k > recipe.validation.samples)
            refuse("--k ", k, ": pass@k needs 1 <= k <= samples, ", recipe.validation.samples);
    auto backend = open_device(recipe);
    rl::Session session(recipe, *backend, rl::Session::Purpose::evaluate);
    run::log::info(cat(backend->device(), "; ", session.source().text));
    for (const auto& note : session.task().notes()) run::log::info(note);
    session.load();
    if (!a.checkpoint.empty())
        restore_from(session, a.checkpoint);
    else {
        std::vector<std::vector<int32_t>> prompts;
        for (int64_t i = 0; i < std::min<int64_t>(session.validation_problems(), recipe.rollout.prompts); ++i)
            prompts.push_back(session.encoder().prompt(session.task().validation(i)));
        calibrate_on(session, prompts);
    }
    rl::EvaluationSettings s;
    s.problems = session.validation_problems();
    s.samples = recipe.validation.samples;
    s.max_prompt_tokens = session.plan().max_prompt_tokens;
    s.sampling = session.validation_sampling();
    run::Progress progress;
    rl::Evaluation e;
    {
        rl::Session::Rollout stage(session);
        progress.begin("evaluating", s.problems * s.samples);
        e = rl::evaluate(session.task(), session.encoder(), stage.engine(), s, 0,
                         [&](size_t done, size_t) { progress.update(static_cast<int64_t>(done)); });
        progress.end();
    }
    run::Record r;
    r.set("name", recipe.name)
        .set("accuracy", e.accuracy.mean)
        .set("accuracy_half_width", e.accuracy.half_width)
        .set("problems", e.accuracy.count)
        .set("samples", e.samples)
        .set("temperature", recipe.validation.temperature);
    for (int64_t k : a.k) r.set(cat("pass@", k), e.pass_at(k));
    if (a.k.empty() && e.samples > 1)
        r.set("pass@1", e.pass_at(1)).set(cat("pass@", e.samples), e.pass_at(e.samples));
    if (e.samples > 1) r.set(cat("cons@", e.samples), e.consensus);
    r.set("mean_tokens", e.mean_tokens)
        .set("truncation_rate", e.truncated)
        .set("left_out", e.left_out)
        .set("tokens_per_sec", static_cast<double>(e.tokens) / std::max(1e-9, e.seconds))
        .set("seconds", e.seconds);
    std::printf("%s\n", r.json().c_str());
    if (!a.completions.empty()) {
        run::CompletionsWriter writer(a.completions);
        for (const auto& l : e.lines) writer.write(rl::completion_of(l, static_cast<int64_t>(l.problem)));
    }
    return 0;
}

}  // namespace

Action add_eval(CLI::App& app) {
    auto a = std::make_shared<Arguments>();
    a->recipe.add_to(app);
    app.add_option(
        "--checkpoint", a->checkpoint,
        "latest, best (of the recipe's run folder), or a checkpoint folder; default: the model as it starts");
    app.add_option("--samples", a->samples, "samples per problem; default: validation.samples");
    app.add_option("--problems", a->problems, "validation problems; default: validation.size");
    app.add_option("--temperature", a->temperature, "sampling temperature; default: validation.temperature");
    app.add_option("--k", a->k, "k of pass@k (several allowed)")->delimiter(',');
    app.add_option("--completions", a->completions, "append every completion to this file as JSON lines");
    return [a] { return eval(*a); };
}

}  // namespace fp8rl::apps
