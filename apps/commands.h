// apps/commands: one function per subcommand. Each adds itself to the command line and returns what runs when
// it is chosen; errors are thrown and caught in main.cpp alone.
#pragma once
#include <functional>
#include <memory>

#include "backend/backend.h"
#include "recipe/load.h"

namespace CLI {
class App;
}
namespace fp8rl::rl {
class Session;
}

namespace fp8rl::apps {

// What a subcommand does when chosen; the value is the exit code.
using Action = std::function<int()>;

Action add_train(CLI::App& app);
Action add_eval(CLI::App& app);
Action add_generate(CLI::App& app);
Action add_plan(CLI::App& app);
Action add_bench(CLI::App& app);
Action add_recipe(CLI::App& app);
Action add_info(CLI::App& app);

// The explicit list of backends, fastest first.
std::vector<std::string> backends();
std::unique_ptr<Backend> make_backend(BackendChoice choice);
// Threads, backend: what a recipe's `device` section says.
std::unique_ptr<Backend> open_device(const Recipe& recipe);

// Weights and scales of a checkpoint into a loaded session: "latest" or "best" of its run folder, or a
// folder.
void restore_from(rl::Session& session, const std::string& which);
// First scales from prompts, for a model that no checkpoint calibrated.
void calibrate_on(rl::Session& session, const std::vector<std::vector<int32_t>>& prompts);

// "RECIPE" and "--set": shared by every command that reads a recipe.
struct RecipeArguments {
    std::string path;
    std::vector<std::string> overrides;
    void add_to(CLI::App& app);
    LoadedRecipe load() const;
};

}  // namespace fp8rl::apps
