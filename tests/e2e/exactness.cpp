// The promise as the product reports it: rollout and training log-probs equal to the bit, or a plain word
// that they are not, and why.
#include "e2e/lab.h"

namespace fp8rl::test {

TEST_CASE("rollout and training agree to the bit in every exact precision, with every KV cache") {
    const std::vector<Strings> recipes = {
        {"precision.recipe=bf16"},
        {"precision.recipe=blockwise"},
        {"precision.recipe=blockwise", "precision.pow2_scales=true"},
        {"precision.recipe=mxfp8"},
        {"precision.recipe=per_tensor", "precision.per_tensor.scaling=delayed"},
        {"precision.recipe=per_tensor", "precision.per_tensor.scaling=static",
         "precision.per_tensor.static_scale=0.05"},
        {"precision.recipe=per_tensor", "precision.backward=e5m2"},
        {"precision.recipe=blockwise", "precision.backward=bf16", "precision.bf16.first_layers=1"},
    };
    const std::vector<Strings> caches = {
        {"precision.kv_cache.format=bf16"},
        {"precision.kv_cache.format=fp8"},
        {"precision.kv_cache.format=fp8", "precision.attention=fp8"},
        {"precision.kv_cache.format=fp8", "precision.kv_cache.recalibrate=prompts"},
    };
    Lab lab;
    int n = 0;
    for (const auto& recipe : recipes)
        for (const auto& cache : caches) {
            Strings sets = recipe;
            sets.insert(sets.end(), cache.begin(), cache.end());
            std::string what;
            for (const auto& s : sets) what += s + " ";
            INFO(what);
            const std::string name = "run_" + std::to_string(++n);
            Result r = lab.trained(name, sets);
            CHECK(r.said("are exact: equal to the last bit"));
            auto s = lab.summary(name);
            CHECK(s.at("exact") == true);
            CHECK(s.at("mismatch/max_abs") == 0);
            CHECK(s.at("mismatch/tokens").get<double>() > 0);
            CHECK(s.at("mismatch/tokens") == s.at("generated_tokens"));
            CHECK(sum(column(lab.metrics(name), "mismatch/differing_tokens")) == 0);
        }
}

TEST_CASE("a recipe that cannot be exact says so first, measures it and runs") {
    const std::vector<Strings> recipes = {
        {"precision.recipe=per_tensor", "precision.per_tensor.scaling=current"},
        {"precision={recipe: bf16, rollout: {recipe: blockwise}}"},
        {"precision={recipe: bf16, rollout: {recipe: per_tensor, scale_rule: vllm, kv_cache: {format: "
         "fp8}}}"},
    };
    Lab lab;
    int n = 0;
    for (const auto& sets : recipes) {
        INFO(sets.back());
        const std::string name = "run_" + std::to_string(++n);
        Result r = lab.trained(name, sets);
        CHECK(r.said("not exact, because"));
        CHECK_FALSE(r.said("are exact"));
        CHECK(lab.summary(name).at("exact") == false);
        CHECK(lab.summary(name).at("mismatch/max_abs").get<double>() > 0);
        auto rl = only(lab.metrics(name), "rl");
        for (const char* key : {"token_mult_prob_error", "gen_kl_error", "policy_kl_error",
                                "js_divergence_error", "sampling_importance_ratio"})
            CHECK(column(rl, key).size() == rl.size());
        CHECK(sum(column(rl, "gen_kl_error")) > 0);
        for (double e : column(rl, "token_mult_prob_error")) CHECK(e > 1);
        Result plan = run({"plan", lab.recipe(), "--set", sets[0], "--set", sets.back()});
        CHECK(plan.out.find("not exact, because") != std::string::npos);
    }
}

TEST_CASE("importance correction weighs tokens of a rollout that differs, and nothing when exact") {
    Lab lab;
    const std::string differs = "precision={recipe: bf16, rollout: {recipe: blockwise}}";
    const std::string correct = "algorithm.correction.kind=token_truncated";
    lab.trained("plain", {differs});
    lab.trained("corrected", {differs, correct});
    CHECK(lab.weights("plain") != lab.weights("corrected"));
    lab.trained("exact", {});
    lab.trained("exact_corrected", {correct});
    CHECK(lab.weights("exact") == lab.weights("exact_corrected"));
}

TEST_CASE("a layer whose FP8 cache saturates falls back to BF16, loudly, and stays exact and resumable") {
    Lab lab;
    const std::string guard = "precision.kv_cache.max_saturated=0.01";
    Result r = lab.trained("whole", {guard});
    CHECK(r.said("values saturated; its KV cache is BF16 from now on"));
    CHECK(lab.summary("whole").at("mismatch/max_abs") == 0);
    lab.trained("parts", {guard, "train.steps=2"});
    lab.trained("parts", {guard}, {"--resume"});
    CHECK(lab.weights("parts") == lab.weights("whole"));
    // One sequence alone still finds room in the cache of a lone request.
    Result one =
        run({"generate", lab.recipe(), "--set", guard, "--set", "checkpoint.dir=" + lab.folder("whole"),
             "--checkpoint", "latest", "--max-new-tokens", "4", "-p", "31>"});
    INFO(one.err);
    CHECK(one.code == 0);
}

TEST_CASE("a rollout block shares training's cache unless it asks for another, which is refused by name") {
    Lab lab;
    Result shown = run({"recipe", "show", lab.recipe(), "--set", "precision.rollout={recipe: bf16}"});
    CHECK(shown.out.find("precision.rollout.kv_cache.format = fp8 ") != std::string::npos);
    CHECK(shown.out.find("precision.rollout.kv_cache.max_saturated = 0 ") != std::string::npos);
    Result r = lab.train("run", {"precision.rollout={recipe: bf16, kv_cache: {format: bf16}}"});
    CHECK(r.code == 2);
    CHECK(r.said("precision.rollout.kv_cache"));
}

}  // namespace fp8rl::test
