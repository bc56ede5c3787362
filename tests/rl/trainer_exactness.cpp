// Claims about the promise of the product: in every mode that the plan calls exact, each log-prob of the
// rollout is found again by training, bit for bit, and a single changed bit anywhere ends the run with exit
// code 3.
#include "trainer_support.h"

using namespace fp8rl;
using namespace fp8rl::test;

namespace {

double number(const FinishedRun& run, const std::string& key) {
    double most = -1;
    for (const auto& r : run.records)
        if (r.contains(key)) most = std::max(most, r.at(key).get<double>());
    return most;
}

}  // namespace

TEST_CASE("rollout and training agree to the last bit in every exact mode, with every cache") {
    const std::vector<std::vector<std::string>> modes = {
        {"precision.recipe=bf16"},
        {"precision.recipe=blockwise"},
        {"precision.recipe=blockwise", "precision.pow2_scales=true"},
        {"precision.recipe=mxfp8"},
        {"precision.recipe=per_tensor"},
        {"precision.recipe=per_tensor", "precision.per_tensor.scaling=static",
         "precision.per_tensor.static_scale=0.02"}};
    const std::vector<std::vector<std::string>> caches = {
        {"precision.kv_cache.format=bf16"},
        {"precision.kv_cache.format=fp8", "precision.kv_cache.max_saturated=0"},
        {"precision.kv_cache.format=fp8", "precision.kv_cache.max_saturated=0", "precision.attention=fp8"}};
    for (const auto& mode : modes)
        for (const auto& cache : caches) {
            std::vector<std::string> overrides = mode;
            overrides.insert(overrides.end(), cache.begin(), cache.end());
            overrides.push_back("rollout.temperature=0.8");
            INFO(mode[0] << " " << mode.back() << " " << cache.back());
            FinishedRun run = train(overrides);
            CHECK(run.verdict.find("exact: equal to the last bit") != std::string::npos);
            CHECK(number(run, "mismatch/max_abs") == 0);
            // Every completion token of every step: none escapes the comparison.
            double tokens = 0;
            for (const auto& r : run.records)
                if (r.at("phase") == "rl") tokens += 16 * r.at("mean_gen_tokens_per_sample").get<double>();
            CHECK(run.result.state.compared_tokens == Approx(tokens));
            CHECK(run.result.state.max_mismatch == 0);
        }
}

TEST_CASE("top-p, top-k, preemption, tiny chunks and recalibration on prompts keep the promise") {
    const std::vector<std::vector<std::string>> cases = {{"rollout.top_p=0.7"},
                                                         {"rollout.top_k=5"},
                                                         {"rollout.slots=1", "rollout.chunk=1"},
                                                         {"rollout.slots=3", "rollout.prefix_sharing=false"},
                                                         {"precision.kv_cache.recalibrate=prompts"},
                                                         {"train.recompute=block"},
                                                         {"algorithm.updates_per_step=3"},
                                                         {"algorithm.kl.beta=0.1", "algorithm.entropy=0.01"}};
    for (const auto& overrides : cases) {
        INFO(overrides[0]);
        FinishedRun run = train(overrides);
        CHECK(number(run, "mismatch/max_abs") == 0);
        CHECK(run.result.state.compared_tokens > 0);
    }
}

TEST_CASE(
    "one flipped bit of a weight code, a stored log-prob or a KV scale is noticed, by step, sample and "
    "token") {
    struct Flip {
        const char* what;
        std::function<void(rl::Session&, std::vector<rl::Sample>&)> apply;
    };
    const Flip flips[] = {
        {"weight code",
         [](rl::Session& s, std::vector<rl::Sample>&) {
             Param* p = s.model().params().find("model.layers.1.mlp.down_proj.weight");
             REQUIRE(p);
             static_cast<uint8_t*>(p->weight.forward.data)[7] ^= 0x40;
         }},
        {"stored log-prob",
         [](rl::Session&, std::vector<rl::Sample>& samples) {
             auto& x = samples.back().rollout_logp.back();
             uint32_t bits;
             std::memcpy(&bits, &x, 4);
             bits ^= 1;
             std::memcpy(&x, &bits, 4);
         }},
        {"KV scale",
         [](rl::Session& s, std::vector<rl::Sample>&) {
             auto* bits = static_cast<uint32_t*>(s.model().kv_scales().v_scale.data);
             bits[0] ^= 1u << 22;
         }},
    };
    for (const auto& flip : flips) {
        INFO(flip.what);
        rl::TrainerHooks hooks;
        hooks.after_rollout = [&](int64_t step, rl::Session& session, std::vector<rl::Sample>& samples) {
            if (step == 4) flip.apply(session, samples);
        };
        try {
            // The guard must not move the flipped layer's cache to BF16, which has no scales.
            train({"precision.kv_cache.max_saturated=0"}, hooks);
            FAIL("the flip went unnoticed");
        } catch (const Error& e) {
            CHECK(e.exit_code() == 3);
            const std::string text = e.what();
            CHECK(text.find("step 4") != std::string::npos);
            CHECK(text.find("prompt train/") != std::string::npos);
            CHECK(text.find("sample ") != std::string::npos);
            CHECK(text.find("token ") != std::string::npos);
        }
    }
}

TEST_CASE("where a recipe makes exactness impossible the plan says why and the run measures how much") {
    FinishedRun current = train({"precision.per_tensor.scaling=current", "precision.recipe=per_tensor"});
    CHECK(current.verdict.starts_with("not exact, because"));
    FinishedRun rollout_only =
        train({"precision={recipe: bf16, kv_cache: {format: bf16}, rollout: {recipe: blockwise}}",
               "algorithm.entropy=0.01"});
    CHECK(rollout_only.verdict.starts_with("not exact, because"));
    CHECK(number(rollout_only, "mismatch/max_abs") > 0);
    for (const char* key : {"token_mult_prob_error", "gen_kl_error", "policy_kl_error", "js_divergence_error",
                            "sampling_importance_ratio", "approx_entropy", "mismatch/tokens"})
        CHECK(number(rollout_only, key) >= 0);
    FinishedRun corrected =
        train({"precision={recipe: bf16, kv_cache: {format: bf16}, rollout: {recipe: blockwise}}",
               "algorithm.correction.kind=token_truncated"});
    CHECK(number(corrected, "sampling_importance_ratio/raw") > 0);
}
