// Shared by the recipe tests: a recipe that is valid but for what a test adds, and the text of a refusal.
#pragma once
#include "core/error.h"
#include "recipe/load.h"
#include "test.h"

namespace fp8rl::test {

// `yaml` first, so that its line numbers hold; a model after it.
inline std::string with_model(const std::string& yaml) {
    return yaml + (yaml.empty() || yaml.back() == '\n' ? "" : "\n") + "model: {init: {}}\n";
}

inline Recipe recipe_of(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
    return parse_recipe(with_model(yaml), "r.yaml", overrides).recipe;
}

// What is printed for a recipe that must be refused; a recipe that is not refused fails the test.
inline std::string refusal_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
    try {
        parse_recipe(text, "r.yaml", overrides);
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        return e.what();
    }
    FAIL("accepted: " << text);
    return "";
}

inline std::string refusal(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
    return refusal_of(with_model(yaml), overrides);
}

inline bool has(const std::string& text, std::initializer_list<const char*> parts) {
    for (const char* p : parts)
        if (text.find(p) == std::string::npos) {
            UNSCOPED_INFO("'" << p << "' is not in: " << text);
            return false;
        }
    return true;
}

}  // namespace fp8rl::test
