// One recipe and seed: the same metrics and weights whatever the threads, the SIMD path, the schedule of the
// rollout or the memory that the update may keep.
#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

// Nothing but timings differs, and what the schedule itself reports.
void check_equal(const Lab& lab, const std::string& a, const std::string& b,
                 const Strings& left_out = {"timing/"}) {
    INFO(a << " and " << b);
    CHECK(without(lab.metrics(a), left_out) == without(lab.metrics(b), left_out));
    CHECK(lab.weights(a) == lab.weights(b));
}

Strings simd_paths() {
    const std::string out = run({"info"}).out;
    const size_t begin = out.find("\nsimd ") + 6;
    std::istringstream in(out.substr(begin, out.find('\n', begin) - begin));
    Strings paths;
    for (std::string word; in >> word;) {
        if (word.back() == ',') word.pop_back();
        paths.push_back(word);
    }
    return paths;
}

}  // namespace

TEST_CASE("two runs of one recipe give the same metrics, completions and weights; another seed does not") {
    Lab lab;
    lab.trained("a");
    lab.trained("b");
    check_equal(lab, "a", "b");
    CHECK(lab.file("a", "completions.jsonl") == lab.file("b", "completions.jsonl"));
    lab.trained("c", {"seed=2"});
    CHECK(lab.weights("a") != lab.weights("c"));
}

TEST_CASE("one, two and three threads give the same bytes") {
    for (const char* recipe : {"bf16", "blockwise", "mxfp8", "per_tensor"}) {
        Lab lab;
        const std::string precision = std::string("precision.recipe=") + recipe;
        lab.trained("one", {precision});
        lab.trained("two", {precision, "device.threads=2"});
        lab.trained("three", {precision, "device.threads=3"});
        check_equal(lab, "one", "two");
        check_equal(lab, "one", "three");
    }
}

TEST_CASE("every SIMD path of this CPU gives the same bytes") {
    const Strings paths = simd_paths();
    REQUIRE(paths.front() == "scalar");
    // The scalar path is the definition, and slow.
    const Strings small = {"warmup.steps=6",        "train.steps=2",  "rollout.prompts=3",
                           "rollout.samples=4",     "warmup.batch=4", "algorithm.entropy=0.01",
                           "task.validation_size=2"};
    for (const char* recipe : {"bf16", "blockwise", "mxfp8", "per_tensor"}) {
        Lab lab;
        for (const auto& path : paths) {
            Options o;
            o.env = {{"FP8RL_SIMD", path}};
            Strings sets = small;
            sets.push_back(std::string("precision.recipe=") + recipe);
            Result r = lab.trained(path, sets, {}, o);
            CHECK(r.said(", " + path + ", 1 threads"));
            INFO(recipe);
            check_equal(lab, "scalar", path);
        }
    }
}

TEST_CASE("recomputing blocks changes no bit and plans less memory for activations") {
    Lab lab;
    lab.trained("kept");
    lab.trained("recomputed", {"train.recompute=block"});
    check_equal(lab, "kept", "recomputed");
    auto saved = [&](const char* how) {
        Result r = run({"plan", lab.recipe(), "--set", std::string("train.recompute=") + how});
        REQUIRE(r.code == 0);
        double n = 0;
        std::string unit;
        std::istringstream(r.out.substr(r.out.find("  saved") + 7)) >> n >> unit;
        REQUIRE(unit == "KiB");
        return n;
    };
    CHECK(saved("block") < saved("none"));
}

TEST_CASE("slots, prefill chunks, prefix sharing and preemption change no bit of a run") {
    // What is computed again is quantized again, so the rates of activations count other rows.
    // Two pages a sequence: prompts of 9 tokens, completions of up to 20, pages of 16.
    const Strings base = {"task.length=8", "rollout.max_new_tokens=20", "model.init.max_position=64",
                          "algorithm.entropy=0.01", "warmup.steps=10"};
    for (const char* cache : {"bf16", "fp8"}) {
        Lab lab;
        auto train = [&](const char* name, Strings more) {
            more.insert(more.begin(), base.begin(), base.end());
            more.push_back(std::string("precision.kv_cache.format=") + cache);
            lab.trained(name, more);
        };
        train("plain", {});
        train("one_slot", {"rollout.slots=1"});
        train("many_slots", {"rollout.slots=64"});
        train("chunks", {"rollout.chunk=1"});
        train("unshared", {"rollout.prefix_sharing=false"});
        train("tight", {"rollout.slots=16",
                        cache == std::string("fp8") ? "rollout.kv_memory=12KiB" : "rollout.kv_memory=24KiB"});
        for (const char* other : {"one_slot", "many_slots", "chunks", "unshared", "tight"})
            check_equal(lab, "plain", other, {"timing/", "rollout/", "quant/activation/"});
        CHECK(sum(column(lab.metrics("plain"), "rollout/preemptions")) == 0);
        CHECK(sum(column(lab.metrics("tight"), "rollout/preemptions")) > 0);
        CHECK(sum(column(lab.metrics("unshared"), "rollout/shared_tokens")) == 0);
        CHECK(sum(column(lab.metrics("plain"), "rollout/shared_tokens")) > 0);
        CHECK(lab.summary("tight").at("mismatch/max_abs") == 0);
    }
}

}  // namespace fp8rl::test
