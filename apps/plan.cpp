// fp8rl plan: what a run will do, before it does anything.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/commands.h"
#include "rl/session.h"

namespace fp8rl::apps {

Action add_plan(CLI::App& app) {
    auto a = std::make_shared<RecipeArguments>();
    a->add_to(app);
    return [a] {
        LoadedRecipe loaded = a->load();
        auto backend = open_device(loaded.recipe);
        rl::Session session(loaded.recipe, *backend, rl::Session::Purpose::train);
        std::printf("%s", plan_text(session.plan()).c_str());
        return 0;
    };
}

}  // namespace fp8rl::apps
