// recipe/rules: what keys must not say together. Pure; a single key's range is its field's business.
#pragma once
#include <string>
#include <vector>

#include "recipe/recipe.h"

namespace fp8rl::recipe {

struct Contradiction {
    std::vector<std::string> keys;  // the first one is blamed
    std::string message;
};

std::vector<Contradiction> contradictions(const Recipe& r);

}  // namespace fp8rl::recipe
