// apps/device: the explicit list of backends, and the recipe arguments that commands share.
#include <CLI/CLI.hpp>

#include "apps/commands.h"
#include "core/parallel.h"
#include "cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"

namespace fp8rl::apps {

std::vector<std::string> backends() {
    std::vector<std::string> list;
    if (cuda_available()) list.push_back("cuda");
    list.push_back("cpu");
    return list;
}

std::unique_ptr<Backend> make_backend(BackendChoice choice) {
    if (choice == BackendChoice::cuda || (choice == BackendChoice::automatic && cuda_available()))
        return make_cuda_backend();
    return make_cpu_backend();
}

std::unique_ptr<Backend> open_device(const Recipe& recipe) {
    parallel::set_threads(static_cast<int>(recipe.device.threads.value_or(parallel::available_threads())));
    return make_backend(recipe.device.backend);
}

void RecipeArguments::add_to(CLI::App& app) {
    app.add_option("RECIPE", path, "recipe file (YAML)")->required();
    app.add_option("--set", overrides, "override a key: --set optimizer.lr=5e-7 (repeatable)")
        ->take_all()
        ->allow_extra_args(false);
}

LoadedRecipe RecipeArguments::load() const { return load_recipe(path, overrides); }

}  // namespace fp8rl::apps
