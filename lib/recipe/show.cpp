// recipe/show: the table of fields written out: the resolved recipe as YAML, as a list with origins, and the
// documentation of every key.
#include <algorithm>

#include "core/text.h"
#include "recipe/fields.h"
#include "recipe/load.h"

namespace fp8rl {

using namespace recipe;

std::string to_yaml(const Recipe& recipe) {
    std::string out;
    std::vector<std::string> open;  // sections whose headings stand above
    for (const auto& f : fields()) {
        if (!exists(recipe, f.key)) continue;
        auto parts = text::split(f.key, '.');
        const std::string name = parts.back();
        parts.pop_back();
        size_t common = 0;
        while (common < open.size() && common < parts.size() && open[common] == parts[common]) ++common;
        for (size_t i = common; i < parts.size(); ++i) out += std::string(i * 2, ' ') + parts[i] + ":\n";
        out += std::string(parts.size() * 2, ' ') + name + ": " + f.get(recipe) + "\n";
        open = parts;
    }
    return out;
}

std::string show(const LoadedRecipe& loaded) {
    struct Row {
        std::string key, value;
    };
    std::vector<Row> rows;
    std::string missing;  // the absent section that the last row stands for
    for (const auto& f : fields()) {
        if (exists(loaded.recipe, f.key)) {
            rows.push_back({f.key, f.get(loaded.recipe)});
            continue;
        }
        for (const auto& s : sections())
            if (s.present && !s.present(loaded.recipe) && f.key.starts_with(s.key + ".") &&
                missing != s.key) {
                missing = s.key;
                rows.push_back({s.key, s.absent});
            }
    }
    size_t width = 0;
    for (const auto& r : rows)
        width = std::max(width, std::min<size_t>(60, r.key.size() + 3 + r.value.size()));
    std::string out;
    for (const auto& r : rows) {
        std::string line = r.key + " = " + r.value;
        if (line.size() < width) line.resize(width, ' ');
        auto origin = loaded.origins.find(r.key);
        out += line + "  (" + (origin == loaded.origins.end() ? "default" : origin->second) + ")\n";
    }
    return out;
}

std::string recipe_documentation() {
    Recipe defaults;
    defaults.model.init.emplace();
    defaults.precision.rollout.emplace();
    std::string out =
        "A recipe is one YAML file. Override a key with --set a.b=value (a value is YAML: 3, [0.9, 0.95], "
        "{format: "
        "fp8}).\n";
    std::string section;
    for (const auto& f : fields()) {
        if (const std::string now = section_of(f.key); now != section || out.find('\n') == out.size() - 1) {
            section = now;
            out += '\n';
            for (const auto& s : sections())
                if (s.key == section)
                    out += section + ": " + s.doc +
                           (s.present ? " (optional; absent: " + s.absent + ")" : "") + "\n";
        }
        out += "  " + f.key + " = " + f.get(defaults) + "\n      " + f.type + "\n      " + f.doc + "\n";
    }
    return out;
}

}  // namespace fp8rl
