// Any bytes are a recipe or a refusal, and a recipe that was accepted is written back to an equal one. After
// a line of `--set`s the input may hold overrides, one a line.
#include <cstdlib>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "recipe/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    using namespace fp8rl;
    std::string text(reinterpret_cast<const char*>(data), size);
    std::vector<std::string> overrides;
    const std::string mark = "\n#--set\n";
    if (auto at = text.find(mark); at != std::string::npos) {
        overrides = text::split(std::string_view(text).substr(at + mark.size()), '\n');
        if (!overrides.empty() && overrides.back().empty()) overrides.pop_back();
        text.resize(at + 1);
    }
    try {
        const auto loaded = parse_recipe(text, "r.yaml", overrides);
        if (parse_recipe(to_yaml(loaded.recipe), "again.yaml").recipe != loaded.recipe) std::abort();
        show(loaded);
    } catch (const Error& e) {
        if (e.exit_code() != 2) std::abort();
    }
    return 0;
}
