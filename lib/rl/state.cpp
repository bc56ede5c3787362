#include "rl/state.h"

#include "io/json.h"

namespace fp8rl::rl {
namespace {

const char* const weights_file = "weights.safetensors";
const char* const optimizer_file = "optimizer.safetensors";
const char* const reference_file = "reference.safetensors";

// Counts as JSON integers, the rest as JSON numbers: both read back to the same bits.
template <class S, class F, class G>
void visit_state(S& s, F&& integer, G&& number) {
    integer("step", s.step);
    integer("updates", s.updates);
    integer("best_step", s.best_step);
    number("first_accuracy", s.first_accuracy);
    number("last_accuracy", s.last_accuracy);
    number("best_accuracy", s.best_accuracy);
    number("seconds", s.seconds);
    number("compared_tokens", s.compared_tokens);
    number("max_mismatch", s.max_mismatch);
    number("generated_tokens", s.generated_tokens);
    number("trained_tokens", s.trained_tokens);
}

}  // namespace

run::CheckpointData snapshot(const Model& model, const Model* reference, const RunState& state,
                             const std::string& recipe_yaml) {
    run::CheckpointData data;
    data.step = state.step;
    data.recipe = recipe_yaml;
    run::CheckpointData::File weights{weights_file, {}}, optimizer{optimizer_file, {}};
    model.params().visit([&](const Param& p) {
        weights.tensors.push_back({p.name, p.master});
        if (!p.trained) return;
        optimizer.tensors.push_back({p.name + ".moment1", p.moment1});
        optimizer.tensors.push_back({p.name + ".moment2", p.moment2});
    });
    data.files = {std::move(weights), std::move(optimizer)};
    if (reference) {
        run::CheckpointData::File frozen{reference_file, {}};
        reference->params().visit([&](const Param& p) { frozen.tensors.push_back({p.name, p.master}); });
        data.files.push_back(std::move(frozen));
    }
    Json doc = Json::object();
    visit_state(
        state, [&](const char* key, int64_t v) { doc.set(key, v); },
        [&](const char* key, double v) { doc.set(key, v); });
    doc.set("next_problem", static_cast<int64_t>(state.next_problem));
    Json scales = Json::object();
    for (const auto& s : model.state()) {
        Json list = Json::array();
        for (float x : s.values) list.push(static_cast<double>(x));
        scales.set(s.name, std::move(list));
    }
    doc.set("scales", std::move(scales));
    doc.set("config", Json::parse(config_text(model.spec()), "config"));
    data.state = doc.dump();
    return data;
}

void restore_weights(Model& model, run::CheckpointReader& reader) {
    Json doc = Json::parse(reader.state(), reader.folder() + "/state.json");
    if (!(doc.at("config") == Json::parse(config_text(model.spec()), "config")))
        refuse(reader.folder(), ": holds a model of another shape than the recipe's");
    model.params().visit([&](Param& p) { reader.read(weights_file, p.name, p.master); });
    reader.require_all_read(weights_file);
    std::vector<Model::State> scales;
    for (const auto& [name, list] : doc.at("scales").members()) {
        Model::State s{name, {}};
        for (const auto& x : list.items()) s.values.push_back(static_cast<float>(x.as_number()));
        scales.push_back(std::move(s));
    }
    model.restore(scales);
    model.prepare();
}

bool restore_reference(Model& reference, run::CheckpointReader& reader) {
    if (!reader.has_file(reference_file)) return false;
    reference.params().visit([&](Param& p) { reader.read(reference_file, p.name, p.master); });
    reference.prepare();
    return true;
}

RunState restore(Model& model, run::CheckpointReader& reader) {
    restore_weights(model, reader);
    model.params().visit([&](Param& p) {
        if (!p.trained) return;
        reader.read(optimizer_file, p.name + ".moment1", p.moment1);
        reader.read(optimizer_file, p.name + ".moment2", p.moment2);
    });
    Json doc = Json::parse(reader.state(), reader.folder() + "/state.json");
    RunState state;
    visit_state(
        state, [&](const char* key, int64_t& v) { v = doc.at(key).as_integer(); },
        [&](const char* key, double& v) { v = doc.at(key).as_number(); });
    state.next_problem = static_cast<uint64_t>(doc.at("next_problem").as_integer());
    return state;
}

}  // namespace fp8rl::rl
