// fp8rl recipe: check a recipe, print what it resolves to and where each value came from, or document every
// key.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/commands.h"

namespace fp8rl::apps {
namespace {

struct Arguments {
    std::string path;
    std::vector<std::string> overrides;
    bool docs = false, yaml = false;
};

}  // namespace

Action add_recipe(CLI::App& app) {
    auto a = std::make_shared<Arguments>();
    app.require_subcommand(1);
    auto add_path = [&](CLI::App* sub, bool required) {
        auto* o = sub->add_option("RECIPE", a->path, "recipe file (YAML)");
        if (required) o->required();
        sub->add_option("--set", a->overrides, "override a key (repeatable)")
            ->take_all()
            ->allow_extra_args(false);
    };
    CLI::App* show = app.add_subcommand("show", "every resolved value and where it came from");
    add_path(show, false);
    show->add_flag("--docs", a->docs, "document every key instead");
    show->add_flag("--yaml", a->yaml, "one complete recipe, ready to be run");
    CLI::App* check = app.add_subcommand("check", "say whether a recipe is right");
    add_path(check, true);
    return [a, show] {
        if (show->parsed() && a->docs) {
            std::printf("%s", recipe_documentation().c_str());
            return 0;
        }
        if (a->path.empty()) refuse("recipe show: give a recipe, or --docs");
        LoadedRecipe loaded = load_recipe(a->path, a->overrides);
        if (show->parsed())
            std::printf("%s", (a->yaml ? to_yaml(loaded.recipe) : fp8rl::show(loaded)).c_str());
        else
            std::printf("%s: ok\n", a->path.c_str());
        return 0;
    };
}

}  // namespace fp8rl::apps
