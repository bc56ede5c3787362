// recipe/load: the tree of a file and the overrides meet the table of fields. Collects every fault before it
// refuses.
#include "recipe/load.h"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/text.h"
#include "recipe/codec.h"
#include "recipe/fields.h"
#include "recipe/rules.h"

namespace fp8rl {

using namespace recipe;

namespace {

// What other tools call it: hints for people who come from there.
const std::vector<std::pair<std::string, std::string>> other_names = {
    {"learning_rate", "optimizer.lr"},
    {"group_size", "rollout.samples"},
    {"num_generations", "rollout.samples"},
    {"max_tokens", "rollout.max_new_tokens"},
    {"max_completion_length", "rollout.max_new_tokens"},
    {"batch_size", "rollout.prompts"},
    {"max_steps", "train.steps"},
    {"num_steps", "train.steps"},
    {"gradient_clipping", "optimizer.grad_clip"},
    {"max_grad_norm", "optimizer.grad_clip"},
    {"kl_coef", "algorithm.kl.beta"},
    {"output_dir", "checkpoint.dir"},
    {"vocab", "model.init.vocab_size"},
};

const Field* find_field(const std::string& key) {
    for (const auto& f : fields())
        if (f.key == key) return &f;
    return nullptr;
}

const Section* find_section(const std::string& key) {
    for (const auto& s : sections())
        if (s.key == key) return &s;
    return nullptr;
}

// Names that may stand directly in a section.
std::vector<std::string> names_in(const std::string& section) {
    std::vector<std::string> names;
    auto add = [&](const std::string& key) {
        if (section_of(key) == section)
            names.push_back(section.empty() ? key : key.substr(section.size() + 1));
    };
    for (const auto& f : fields()) add(f.key);
    for (const auto& s : sections()) add(s.key);
    return names;
}

std::string unknown(const std::string& section, const std::string& name) {
    const auto names = names_in(section);
    const std::string prefix = section.empty() ? "" : section + ".";
    if (auto near = text::nearest(name, names); !near.empty())
        return "unknown key; did you mean " + prefix + near + "?";
    std::vector<std::string> elsewhere;
    for (const auto& f : fields())
        if (f.key.ends_with("." + name)) elsewhere.push_back(f.key);
    if (!elsewhere.empty()) return "unknown key; did you mean " + text::join(elsewhere, " or ") + "?";
    std::vector<std::string> others;
    for (const auto& o : other_names) others.push_back(o.first);
    if (auto near = text::nearest(name, others); !near.empty())
        for (const auto& o : other_names)
            if (o.first == near) return "unknown key; did you mean " + o.second + "?";
    return "unknown key; known here: " + text::join(names, ", ");
}

class Reader {
  public:
    Recipe recipe;
    std::map<std::string, std::string> origins;
    std::vector<Complaint> faults;

    // `lines`: the tree comes from a file, else from an override.
    void apply(const Value& tree, const std::string& section, const std::string& file, bool lines) {
        for (const auto& [name, value] : tree.entries) {
            const std::string key = section.empty() ? name : section + "." + name;
            const std::string where = place(file, lines, value.key_line);
            if (name.find('.') != std::string::npos)
                fault(where, key,
                      "unknown key; a key inside a map is written nested, like optimizer: {lr: 1e-6}");
            else if (const Field* f = find_field(key))
                set(*f, value, where);
            else if (const Section* s = find_section(key))
                enter(*s, value, file, lines, where);
            else
                fault(where, key, unknown(section, name));
        }
    }

    void override_with(const std::string& setting) {
        const size_t equals = setting.find('=');
        if (equals == std::string::npos || equals == 0) {
            fault("--set " + setting, "", "key=value is needed, like optimizer.lr=1e-6");
            return;
        }
        const size_t before = faults.size();
        Value value =
            read_yaml(std::string_view(setting).substr(equals + 1), "--set " + setting, false, faults);
        if (faults.size() != before) return;
        const auto path = text::split(std::string_view(setting).substr(0, equals), '.');
        for (size_t i = path.size(); i-- > 0;) {
            Value around;
            around.kind = Value::Kind::map;
            around.entries.push_back({std::string(text::trim(path[i])), std::move(value)});
            value = std::move(around);
        }
        apply(value, "", "--set", false);
    }

    void finish(const std::string& file) {
        expand_paths();
        share_cache();
        for (const auto& c : contradictions(recipe)) {
            bool doubtful = false;  // a key that could not be read may be the whole reason
            for (const auto& k : c.keys)
                for (const auto& f : faults)
                    doubtful |= f.key == k || f.key.starts_with(k + ".") || k.starts_with(f.key + ".");
            if (doubtful) continue;
            std::string where = file;
            for (const auto& k : c.keys)
                if (auto o = origins.find(k); o != origins.end()) {
                    where = o->second;
                    break;
                }
            fault(where, c.keys.front(), c.message);
        }
        if (faults.empty()) return;
        std::vector<std::string> lines;
        for (const auto& f : faults) lines.push_back(f.line());
        refuse(text::join(lines, "\n"));
    }

  private:
    void fault(const std::string& where, const std::string& key, const std::string& message) {
        faults.push_back({where, key, message});
    }

    void set(const Field& f, const Value& value, const std::string& where) {
        try {
            f.set(recipe, value);
            origins[f.key] = where;
        } catch (const Mismatch& m) {
            fault(where, f.key, m.message);
        }
    }

    void enter(const Section& s, const Value& value, const std::string& file, bool lines,
               const std::string& where) {
        const bool absent = value.kind == Value::Kind::null || value.is(s.absent) || value.is("none");
        if (value.kind == Value::Kind::map) {
            if (s.present) {
                if (!s.present(recipe)) forget(s.key);
                s.set_present(recipe, true);
                origins[s.key] = where;
            }
            apply(value, s.key, file, lines);
        } else if (s.present && absent) {
            forget(s.key);
            s.set_present(recipe, false);
            origins[s.key] = where;
        } else if (value.kind != Value::Kind::null) {
            fault(where, s.key,
                  (s.present ? s.absent + ", or a map" : "a map") + " of keys is needed; found " +
                      recipe::describe(value));
        }
    }

    void forget(const std::string& section) {
        std::erase_if(origins, [&](const auto& o) { return o.first.starts_with(section + "."); });
    }

    // Rollout and training share one cache, so what a rollout block leaves out of it is training's.
    void share_cache() {
        if (!recipe.precision.rollout) return;
        auto share = [&](const std::string& key, auto at) {
            const std::string mine = "precision.rollout." + key, theirs = "precision." + key;
            if (origins.count(mine)) return;
            at(*recipe.precision.rollout) = at(recipe.precision.train);
            if (auto o = origins.find(theirs); o != origins.end()) origins[mine] = o->second;
        };
        share(
            "kv_cache.format", [](PrecisionRules & r) -> auto& { return r.kv_cache.format; });
        share(
            "kv_cache.recalibrate", [](PrecisionRules & r) -> auto& { return r.kv_cache.recalibrate; });
        share(
            "kv_cache.margin", [](PrecisionRules & r) -> auto& { return r.kv_cache.margin; });
        share(
            "kv_cache.max_saturated", [](PrecisionRules & r) -> auto& { return r.kv_cache.max_saturated; });
        share(
            "attention", [](PrecisionRules & r) -> auto& { return r.attention; });
    }

    void expand_paths() {
        auto expand = [&](std::string& path) {
            static const std::string word = "{name}";
            for (size_t at = 0; (at = path.find(word, at)) != std::string::npos; at += recipe.name.size())
                path.replace(at, word.size(), recipe.name);
        };
        expand(recipe.checkpoint.dir);
        for (auto* path : {&recipe.model.path, &recipe.task.train, &recipe.task.validation})
            if (*path) expand(**path);
    }
};

}  // namespace

LoadedRecipe parse_recipe(std::string_view text, const std::string& file,
                          const std::vector<std::string>& overrides) {
    Reader reader;
    const Value tree = read_yaml(text, file, true, reader.faults);
    if (tree.kind == Value::Kind::null && reader.faults.empty()) refuse(file, ": the recipe is empty");
    if (tree.kind == Value::Kind::null) refuse(reader.faults.front().line());  // not YAML
    if (tree.kind != Value::Kind::map)
        refuse(file, ": a recipe is a map of keys; found ", recipe::describe(tree));
    reader.apply(tree, "", file, true);
    for (const auto& o : overrides) reader.override_with(o);
    reader.finish(file);
    return {std::move(reader.recipe), std::move(reader.origins)};
}

LoadedRecipe load_recipe(const std::string& path, const std::vector<std::string>& overrides) {
    if (std::error_code error; !std::filesystem::is_regular_file(path, error))
        refuse(path, ": no such recipe file");
    std::ifstream in(path, std::ios::binary);
    std::stringstream content;
    content << in.rdbuf();
    if (!in) refuse(path, ": cannot be read");
    return parse_recipe(content.str(), path, overrides);
}

}  // namespace fp8rl
