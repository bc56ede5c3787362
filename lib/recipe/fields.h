// recipe/fields: THE table of keys. Parser, `--set`, `recipe show`, its documentation and the resolved recipe
// of a run folder all read it, so a key that is not here does not exist.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "recipe/recipe.h"
#include "recipe/value.h"

namespace fp8rl::recipe {

struct Field {
    std::string key;   // "optimizer.lr"
    std::string type;  // "number > 0"
    std::string doc;
    std::function<void(Recipe&, const Value&)> set;  // throws Mismatch
    std::function<std::string(const Recipe&)> get;   // as YAML
};

// A map of fields. An optional one exists only when the recipe names it; `absent` is the word for not having
// it.
struct Section {
    std::string key;  // "precision.rollout"
    std::string doc;
    std::string absent;                          // "" for a section that always exists
    std::function<bool(const Recipe&)> present;  // optional sections only
    std::function<void(Recipe&, bool present)> set_present;
};

const std::vector<Field>& fields();
const std::vector<Section>& sections();

// The section that a key stands in: "optimizer" for "optimizer.lr", "" for "seed".
std::string section_of(const std::string& key);

// Whether the key's section (and those around it) exists in this recipe.
bool exists(const Recipe& r, const std::string& key);

}  // namespace fp8rl::recipe
