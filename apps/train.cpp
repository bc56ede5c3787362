// fp8rl train: a recipe in, a trained model out.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "apps/commands.h"
#include "core/text.h"
#include "dist/launch.h"
#include "rl/trainer.h"
#include "run/log.h"
#include "run/signals.h"

namespace fp8rl::apps {
namespace {

struct Arguments {
    RecipeArguments recipe;
    std::string metrics = "auto";
    bool resume = false, overwrite = false, dry_run = false;
};

void dry_run(const Recipe& recipe) {
    const auto environment = dist::environment();
    dist::Placement p = dist::place(environment, dist::listed_gpus(environment).value_or(0));
    if (!p.notice.empty()) run::log::info(p.notice);
    std::printf("{\"rank\": %d, \"world\": %d, \"device\": %s, \"name\": \"%s\"}\n", p.rank, p.world,
                p.on_cpu() ? "\"cpu\"" : std::to_string(p.device).c_str(), recipe.name.c_str());
}

// What the run learned, what it cost and what it promised, in a few lines a person reads last.
void conclude(const Recipe& recipe, const rl::Session& session, const rl::TrainResult& result,
              const std::string& folder) {
    const rl::RunState& s = result.state;
    auto percent = [](double x) {
        char b[32];
        std::snprintf(b, sizeof b, "%.1f %%", 100 * x);
        return std::string(b);
    };
    std::string learned = "learned: ";
    if (s.last_accuracy < 0)
        learned += "no validation was asked for";
    else if (s.first_accuracy >= 0)
        learned += cat("validation accuracy ", percent(s.first_accuracy), " -> ", percent(s.last_accuracy),
                       " (best ", percent(s.best_accuracy), " at step ", s.best_step, ")");
    else
        learned += cat("validation accuracy ", percent(s.last_accuracy));
    run::log::info(learned);
    run::log::info(cat("cost: ", text::human_seconds(s.seconds), ", ", text::human_count(s.generated_tokens),
                       " tokens generated, ", text::human_count(s.trained_tokens), " trained, ",
                       text::human_bytes(static_cast<double>(session.plan().total())), " planned"));
    if (recipe.algorithm.name == AlgorithmName::grpo) {
        if (session.plan().exactness.exact)
            run::log::info(cat("exactness: largest rollout/training log-prob difference ",
                               run::json_number(s.max_mismatch), " over ",
                               static_cast<int64_t>(s.compared_tokens), " tokens, each compared to the bit"));
        else
            run::log::info(cat("exactness: none was promised; largest rollout/training log-prob difference ",
                               run::json_number(s.max_mismatch), " over ",
                               static_cast<int64_t>(s.compared_tokens), " tokens"));
    }
    run::log::info(cat("run folder: ", folder));
}

// A resumed run may be longer or validate more often, but the person should see what else is not as it was.
void warn_of_changes(const Recipe& recipe, const std::string& stored_path) {
    const LoadedRecipe stored = load_recipe(stored_path);
    auto values = [](const Recipe& r) { return text::split(show(LoadedRecipe{r, {}}), '\n'); };
    const auto before = values(stored.recipe), now = values(recipe);
    for (const auto& line : now)
        if (std::find(before.begin(), before.end(), line) == before.end())
            run::log::warn("resumed with another value than the run began with: " +
                           line.substr(0, line.find("   (")));
}

int train(const Arguments& a) {
    LoadedRecipe loaded = a.recipe.load();
    const Recipe& recipe = loaded.recipe;
    if (a.dry_run) {
        dry_run(recipe);
        return 0;
    }
    const double start = run::monotonic_seconds();
    const auto environment = dist::environment();
    dist::require_single_process(dist::place(environment, 0));
    auto form = run::stdout_form(a.metrics, isatty(STDOUT_FILENO));
    auto backend = open_device(recipe);
    rl::Session session(recipe, *backend, rl::Session::Purpose::train);
    run::log::info(cat(backend->device(), "; ", session.source().text));
    if (session.plan().exactness.exact)
        run::log::info(verdict_text(session.plan()));
    else
        run::log::warn(verdict_text(session.plan()));
    for (const auto& note : session.task().notes()) run::log::info(note);

    const auto mode = a.resume      ? run::OpenMode::resume
                      : a.overwrite ? run::OpenMode::overwrite
                                    : run::OpenMode::fresh;
    session.load();
    // Before this there is nothing to save: a signal simply ends the process.
    run::install_signal_handlers();
    run::RunFolder folder(recipe.checkpoint.dir, mode);
    auto limit = run::TimeLimit::choose(recipe.checkpoint.time_limit, recipe.checkpoint.before_time_limit,
                                        start, environment, run::epoch_seconds());
    if (!limit.notice().empty()) run::log::info(limit.notice());
    run::Progress progress;
    rl::TrainResult result;
    {
        run::MetricsWriter metrics(folder.metrics_path(), form);
        rl::Trainer trainer(session, folder, metrics, progress, limit);
        if (a.resume) {
            trainer.resume();
            warn_of_changes(recipe, folder.recipe_path());
        }
        folder.write_recipe(to_yaml(recipe));
        result = trainer.run();
    }
    if (!result.finished) {
        run::log::warn(cat("stopped after step ", result.state.step, ": ", result.stop_reason,
                           "; checkpoint saved, go on with --resume"));
        return static_cast<int>(Fault::interrupted);
    }
    run::Record summary;
    const rl::RunState& s = result.state;
    summary.set("name", recipe.name)
        .set("steps", s.step)
        .set("validation/accuracy_first", s.first_accuracy)
        .set("validation/accuracy_last", s.last_accuracy)
        .set("validation/accuracy_best", s.best_accuracy)
        .set("best_step", s.best_step)
        .set("mismatch/max_abs", s.max_mismatch)
        .set("mismatch/tokens", static_cast<int64_t>(s.compared_tokens))
        .set("exact", session.plan().exactness.exact)
        .set("generated_tokens", static_cast<int64_t>(s.generated_tokens))
        .set("trained_tokens", static_cast<int64_t>(s.trained_tokens))
        .set("seconds", s.seconds);
    folder.write_summary(summary);
    conclude(recipe, session, result, folder.path());
    return 0;
}

}  // namespace

Action add_train(CLI::App& app) {
    auto a = std::make_shared<Arguments>();
    a->recipe.add_to(app);
    app.add_option("--metrics", a->metrics, "what stdout carries: auto, json or table")
        ->capture_default_str();
    auto* resume =
        app.add_flag("--resume", a->resume, "go on from the newest complete checkpoint of the run folder");
    app.add_flag("--overwrite", a->overwrite, "remove the run that is in the run folder")->excludes(resume);
    app.add_flag("--dry-run", a->dry_run, "print rank, world and device of this process, and stop");
    return [a] { return train(*a); };
}

}  // namespace fp8rl::apps
