// Against Transformers (scripts/make_nn_goldens.py): logits, log-probs, hidden states and every gradient of
// four tiny decoders. fp32: equal but for rounding. bf16: no further from Transformers' fp32 than 1.5 times
// what its own bf16 is (DESIGN section 4).
#include "io/json.h"
#include "io/safetensors.h"
#include "tiny.h"

namespace fp8rl {
namespace {

using namespace test;

class GoldenWeights final : public WeightSource {
  public:
    GoldenWeights(const SafetensorsFile& file, const std::string& name)
        : file_(file), prefix_(name + ".weight.") {}
    std::string where() const override { return file_.path(); }
    std::vector<std::string> names() const override {
        std::vector<std::string> out;
        for (const auto& t : file_.tensors())
            if (t.name.compare(0, prefix_.size(), prefix_) == 0) out.push_back(t.name.substr(prefix_.size()));
        return out;
    }
    std::vector<int64_t> shape(const std::string& name) const override {
        return file_.tensor(prefix_ + name).shape;
    }
    void read_rows(const std::string& name, int64_t first, int64_t count, float* out) const override {
        const SafeTensor& t = file_.tensor(prefix_ + name);
        const std::vector<float> all = file_.floats(t);
        const int64_t cols = t.shape.back();
        std::copy_n(all.begin() + first * cols, count * cols, out);
    }

  private:
    const SafetensorsFile& file_;
    std::string prefix_;
};

// Everything that the golden file holds, computed here.
std::map<std::string, std::vector<float>> compute(const nlohmann::json& c, const SafetensorsFile& file,
                                                  const std::string& name, PrecisionMode mode) {
    const ModelSpec spec = spec_from_config(Json::parse(c["config"].dump(), name), name);
    Tiny tiny(spec, rules_of(mode));
    tiny.model.load(GoldenWeights(file, name));
    tiny.model.prepare();
    PackedBatch batch;
    for (const auto& ids : c["sequences"]) batch.add(ids.get<std::vector<int32_t>>());
    const int64_t n = batch.rows();
    Saved saved(tiny.phase.arena);
    Pass pass = tiny.pass(batch);
    pass.saved = &saved;
    tiny.model.zero_grad();
    Tensor h = tiny.model.forward(pass);
    Arena& a = tiny.scratch.arena;
    Tensor logits = a.tensor(DType::f32, {n, spec.vocab});
    Tensor logp = a.tensor(DType::f32, {n}), entropy = a.tensor(DType::f32, {n}),
           lse = a.tensor(DType::f32, {n});
    const auto targets = c["targets"].get<std::vector<int32_t>>();
    const Weight& head = tiny.model.head(false);
    device().logits(logits, h, head);
    device().token_logprob(logp, entropy, lse, h, head, targets, {}, 1.0f);
    Tensor dlogp = upload(a, DType::f32, {n}, c["dlogp"].get<std::vector<float>>());
    Tensor dentropy = upload(a, DType::f32, {n}, c["dentropy"].get<std::vector<float>>());
    Tensor dh = a.tensor(tiny.model.options().act, {n, spec.hidden});
    device().token_logprob_backward(dh, tiny.model.head_param().grad, dlogp, dentropy, lse, entropy, h, head,
                                    targets, {}, 1.0f);
    tiny.model.backward(pass, dh);
    std::map<std::string, std::vector<float>> out = {{"hidden", download(h)},
                                                     {"logits", download(logits)},
                                                     {"logp", download(logp)},
                                                     {"entropy", download(entropy)}};
    tiny.model.params().visit([&](Param& p) { out["grad." + p.name] = download(p.grad); });
    return out;
}

TEST_CASE("fp32 equals Transformers but for rounding, forward and every gradient") {
    const SafetensorsFile file(data_path("nn_goldens.safetensors"));
    const auto goldens = read_json("nn_goldens.json");
    for (const auto& [name, c] : goldens["cases"].items()) {
        const auto ours = compute(c, file, name, PrecisionMode::fp32);
        REQUIRE(ours.size() == c["norm"].size());
        for (const auto& [key, norm_json] : c["norm"].items()) {
            INFO(name << " " << key);
            const auto reference = file.floats(file.tensor(name + "." + key));
            CHECK(distance(ours.at(key), reference) <= 3e-6 * norm_json.get<double>());
        }
    }
}

TEST_CASE("bf16 is no further from Transformers' fp32 than 1.5 times Transformers' own bf16") {
    const SafetensorsFile file(data_path("nn_goldens.safetensors"));
    const auto goldens = read_json("nn_goldens.json");
    for (const auto& [name, c] : goldens["cases"].items()) {
        const auto ours = compute(c, file, name, PrecisionMode::bf16);
        for (const auto& [key, error] : c["bf16_error"].items()) {
            INFO(name << " " << key);
            const auto reference = file.floats(file.tensor(name + "." + key));
            // A bias on K shifts all scores of a query (RoPE apart), which softmax ignores: its gradient is a
            // sum that cancels. What is left measures how well dO.O, from a bf16 O as in every flash
            // attention, equals sum P dP, which Transformers' eager form has exactly.
            const bool cancels = key.find("k_proj.bias") != std::string::npos;
            CHECK(distance(ours.at(key), reference) <= (cancels ? 3.0 : 1.5) * error.get<double>());
        }
    }
}

}  // namespace
}  // namespace fp8rl
