// recipe/load: YAML text becomes a Recipe, strictly. Every fault of a file is reported at once, one line
// each, as "file:line: key: what is allowed"; unknown keys name the nearest known one; duplicates, anchors,
// tags, and keys that contradict each other are faults. Scalars are read by the field's type, never by YAML's
// guess. Throws Error(user).
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"

namespace fp8rl {

struct LoadedRecipe {
    Recipe recipe;
    std::map<std::string, std::string> origins;  // key -> "file:line" or "--set"; a default has no entry
};

// `overrides` are "a.b=value" with value in YAML flow syntax: 3, [0.9, 0.95], {format: fp8}.
LoadedRecipe load_recipe(const std::string& path, const std::vector<std::string>& overrides = {});
LoadedRecipe parse_recipe(std::string_view text, const std::string& file,
                          const std::vector<std::string>& overrides = {});

// The whole resolved recipe; parse_recipe reads it back to an equal Recipe.
std::string to_yaml(const Recipe& recipe);

// One line per key: "optimizer.lr = 5e-7   (--set)", "(default)", "(configs/a.yaml:12)".
std::string show(const LoadedRecipe& loaded);

// Every key with type, allowed values, default and meaning.
std::string recipe_documentation();

}  // namespace fp8rl
