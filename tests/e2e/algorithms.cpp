// Every way to train that a recipe names, run for a few steps by the program itself.
#include <algorithm>
#include <cmath>

#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

bool all_finite(const std::vector<double>& v) {
    return std::all_of(v.begin(), v.end(), [](double x) { return std::isfinite(x); });
}

// The RL lines of a run that must succeed.
std::vector<Line> rl_lines(const Lab& lab, const std::string& name, const Strings& sets) {
    lab.trained(name, sets);
    auto lines = only(lab.metrics(name), "rl");
    REQUIRE(lines.size() == lab_steps);
    CHECK(all_finite(column(lines, "loss")));
    return lines;
}

}  // namespace

TEST_CASE("supervised fine-tuning lowers the loss and needs no rollout") {
    Lab lab;
    lab.trained("run", {"algorithm.name=sft", "algorithm.batch=16", "optimizer.lr=1e-2", "train.steps=60",
                        "validation.every=0"});
    auto lines = only(lab.metrics("run"), "sft");
    REQUIRE(lines.size() == 60);
    auto loss = column(lines, "loss");
    CHECK(loss.front() > 3);
    CHECK(loss.back() < 2);
    CHECK(column(lines, "reward").empty());
    CHECK(only(lab.metrics("run"), "warmup").empty());
}

TEST_CASE("warm-up and sft are the same supervised steps") {
    Lab lab;
    const Strings same = {"algorithm.batch=16",        "warmup.batch=16",
                          "optimizer.lr=1e-2",         "warmup.lr=1e-2",
                          "optimizer.warmup_steps=3",  "warmup.warmup_steps=3",
                          "validation.at_start=false", "validation.every=0",
                          "validation.at_end=false"};
    Strings sft = same, warmup = same;
    sft.insert(sft.end(), {"algorithm.name=sft", "train.steps=12"});
    warmup.insert(warmup.end(), {"warmup.steps=12", "train.steps=0"});
    lab.trained("sft", sft);
    lab.trained("warmup", warmup);
    CHECK(lab.weights("sft") == lab.weights("warmup"));
}

TEST_CASE("a reference model: the KL penalty starts at zero, is reported and pulls") {
    Lab lab;
    // In BF16 the cache has no scales, so reference and policy start as the same function.
    const std::string cache = "precision.kv_cache.format=bf16";
    lab.trained("free", {"optimizer.lr=1e-2", cache});
    CHECK(column(lab.metrics("free"), "kl_penalty").empty());
    for (const char* kind : {"k1", "k2", "k3"}) {
        INFO(kind);
        auto lines = rl_lines(
            lab, kind,
            {"optimizer.lr=1e-2", "algorithm.kl.beta=0.5", cache, std::string("algorithm.kl.kind=") + kind});
        auto kl = column(lines, "kl_penalty");
        REQUIRE(kl.size() == lab_steps);
        CHECK(all_finite(kl));
        // The reference is the policy that RL starts from.
        CHECK(kl.front() == 0);
        CHECK(kl.back() != 0);
        CHECK(lab.weights(kind) != lab.weights("free"));
    }
    Result plan = run({"plan", lab.recipe(), "--set", "algorithm.kl.beta=0.5"});
    CHECK(plan.out.find("frozen copy for the KL term") != std::string::npos);
}

TEST_CASE("an entropy bonus trains every sample, those without an advantage too") {
    Lab lab;
    auto lines = rl_lines(lab, "run", {"algorithm.entropy=0.05"});
    for (double n : column(lines, "samples_trained")) CHECK(n == 8 * 12);
    auto entropy = column(lines, "entropy");
    REQUIRE(entropy.size() == lab_steps);
    for (double e : entropy) CHECK((e > 0 && e < std::log(264.0)));
}

TEST_CASE("several updates on one rollout move the ratio away from one; one update leaves it there") {
    Lab lab;
    for (const auto& line : rl_lines(lab, "once", {})) {
        CHECK(line.at("probs_ratio_min").get<double>() == 1);
        CHECK(line.at("probs_ratio_max").get<double>() == 1);
    }
    auto twice = rl_lines(lab, "twice", {"algorithm.updates_per_step=2", "optimizer.lr=1e-2"});
    CHECK(sum(column(twice, "probs_ratio_max")) > lab_steps);
    CHECK(lab.summary("twice").at("mismatch/max_abs") == 0);
    CHECK(lab.weights("once") != lab.weights("twice"));
}

TEST_CASE("top-p, top-k and temperature stay exact") {
    Lab lab;
    int n = 0;
    for (const Strings& sets : {Strings{"rollout.top_p=0.7"}, Strings{"rollout.top_k=5"},
                                Strings{"rollout.top_p=0.9", "rollout.top_k=20", "rollout.temperature=0.7"},
                                Strings{"rollout.temperature=1.7"}}) {
        INFO(sets.front());
        const std::string name = "run_" + std::to_string(++n);
        rl_lines(lab, name, sets);
        CHECK(lab.summary(name).at("mismatch/max_abs") == 0);
        CHECK(lab.summary(name).at("mismatch/tokens").get<double>() > 0);
    }
    // One token left to choose from has probability one.
    auto greedy = rl_lines(lab, "greedy", {"rollout.top_k=1"});
    for (double n_equal : column(greedy, "zero_variance_groups")) CHECK(n_equal == 8);
}

TEST_CASE("stop strings and ids end completions") {
    Lab lab;
    // Untrained, few completions end; most random bytes are none of these ten.
    auto cut = rl_lines(lab, "cut", {"warmup.steps=0"});
    auto stopped = rl_lines(lab, "stopped", {"warmup.steps=0", "rollout.stop=[\">\"]"});
    CHECK(sum(column(stopped, "truncation_rate")) < sum(column(cut, "truncation_rate")));
    auto ids = rl_lines(lab, "ids", {"warmup.steps=0", "rollout.stop_ids=[62]"});
    CHECK(sum(column(ids, "truncation_rate")) < sum(column(cut, "truncation_rate")));
    auto full = rl_lines(lab, "full", {"rollout.ignore_eos=true"});
    for (double t : column(full, "mean_gen_tokens_per_sample")) CHECK(t == 4);
}

TEST_CASE("truncated completions may stay out of the loss, and are still compared") {
    Lab lab;
    const Strings few = {"warmup.steps=0", "algorithm.entropy=0.01"};
    auto all = rl_lines(lab, "all", few);
    Strings masked_sets = few;
    masked_sets.push_back("algorithm.mask_truncated=true");
    auto masked = rl_lines(lab, "masked", masked_sets);
    // Untrained, almost every completion is cut off.
    CHECK(column(all, "samples_trained").front() == 8 * 12);
    CHECK(column(masked, "samples_trained").front() < 8 * 12);
    CHECK(column(masked, "mismatch/tokens").front() == column(all, "mismatch/tokens").front());
}

TEST_CASE("groups of equal rewards are refilled by new prompts, as often as allowed") {
    Lab lab;
    auto plain = rl_lines(lab, "plain", {});
    auto refilled =
        rl_lines(lab, "refilled", {"algorithm.refill_equal_groups=true", "algorithm.refill_tries=1000"});
    CHECK(sum(column(refilled, "dynamic_sampling_num_gen_batches")) > lab_steps);
    CHECK(sum(column(refilled, "dynamic_sampling_num_discarded_groups")) > 0);
    CHECK(sum(column(refilled, "samples_trained")) > sum(column(plain, "samples_trained")));
    Result once = lab.train("once", {"algorithm.refill_equal_groups=true", "algorithm.refill_tries=1"});
    CHECK(once.code == 2);
    CHECK(once.said("algorithm.refill_tries: after 1 rollouts of step 101"));
}

TEST_CASE("aggregations, group deviations and clips each train, and differ") {
    Lab lab;
    Strings seen;
    auto distinct = [&](const char* name, const Strings& sets) {
        INFO(name);
        rl_lines(lab, name, sets);
        const std::string w = lab.weights(name);
        CHECK(std::count(seen.begin(), seen.end(), w) == 0);
        seen.push_back(w);
    };
    // SGD-like: without clipping and with a large eps, AdamW does not hide a factor of the gradient.
    auto with = [](Strings more) {
        more.insert(more.end(), {"optimizer.eps=1", "optimizer.grad_clip=0", "optimizer.lr=1"});
        return more;
    };
    distinct("token_mean", with({}));
    distinct("sequence_mean", with({"algorithm.aggregate=sequence_mean"}));
    distinct("constant", with({"algorithm.aggregate=constant_length", "algorithm.constant=8"}));
    distinct("constant_auto", with({"algorithm.aggregate=constant_length"}));
    distinct("population", with({"algorithm.std=population"}));
    distinct("no_std", with({"algorithm.std=none"}));
    distinct("asymmetric", with({"algorithm.updates_per_step=3", "algorithm.clip=[0.001, 0.002]"}));
    distinct("wide", with({"algorithm.updates_per_step=3", "algorithm.clip=[0.5, 0.5]"}));
}

TEST_CASE("schedules reach the rates they name") {
    Lab lab;
    auto rates = [&](const char* name, const Strings& sets) {
        return column(rl_lines(lab, name, sets), "lr");
    };
    auto constant = rates("constant", {"optimizer.warmup_steps=4", "optimizer.lr=1e-3"});
    REQUIRE(constant.size() == 6);
    const double rise[] = {0.25e-3, 0.5e-3, 0.75e-3, 1e-3, 1e-3, 1e-3};
    for (int i = 0; i < 6; ++i) CHECK(constant[static_cast<size_t>(i)] == Approx(rise[i]));
    auto linear = rates("linear", {"optimizer.schedule=linear", "optimizer.final_fraction=0.5"});
    CHECK(linear.front() == Approx(1e-3));
    CHECK(linear.back() == Approx(0.5e-3));
    auto cosine = rates("cosine", {"optimizer.schedule=cosine", "optimizer.final_fraction=0"});
    CHECK(cosine[0] == Approx(1e-3));
    // (1 + cos(pi / 5)) / 2
    CHECK(cosine[1] == Approx(0.9045084971874737e-3));
    CHECK(cosine.back() == Approx(0).margin(1e-9));
}

TEST_CASE("micro-batches too small for a sequence are refused with their key; small ones that fit run") {
    Lab lab;
    Result r = lab.train("refused", {"train.micro_tokens=6"});
    CHECK(r.code == 2);
    CHECK(r.said("train.micro_tokens"));
    CHECK_FALSE(lab.has("refused", "metrics.jsonl"));
    auto lines = rl_lines(lab, "small", {"train.micro_tokens=16"});
    CHECK(column(lines, "micro_batches").front() > 1);
    // In BF16 the packing of rows changes nothing but the order of sums over micro-batches.
    CHECK(lab.summary("small").at("mismatch/max_abs") == 0);
}

TEST_CASE("a gradient that is not finite stops the run, or is skipped and counted, never passed over") {
    Lab lab;
    const Strings wild = {"warmup.lr=1e30", "warmup.warmup_steps=0", "warmup.steps=8", "train.steps=2"};
    Result stop = lab.train("stop", wild);
    INFO(stop.err);
    CHECK(stop.code == 3);
    CHECK(stop.said("not finite"));
    Strings skipping = wild;
    skipping.push_back("train.on_nonfinite=skip");
    Result skip = lab.train("skip", skipping);
    INFO(skip.err);
    int skipped = 0;
    for (const auto& l : lab.metrics("skip"))
        if (l.contains("update_skipped") && l.at("update_skipped") == "not finite") ++skipped;
    CHECK(skipped > 0);
    CHECK(skip.said("update skipped"));
}

TEST_CASE("layers and modules kept in BF16 are listed by the plan and trained") {
    Lab lab;
    const Strings sets = {"precision.bf16.last_layers=1", "precision.bf16.modules=[\"*.down_proj\"]"};
    rl_lines(lab, "run", sets);
    CHECK(lab.summary("run").at("mismatch/max_abs") == 0);
    Result plan = run({"plan", lab.recipe(), "--set", sets[0], "--set", sets[1]});
    CHECK(plan.out.find("layer 1") != std::string::npos);
    CHECK(plan.out.find("bf16   (") != std::string::npos);
    Result nothing = lab.train("nothing", {"precision.bf16.modules=[\"*.down_prj\"]"});
    CHECK(nothing.code == 2);
    CHECK(nothing.said("down_prj"));
}

TEST_CASE("shuffled rewards keep their sum and change what is learned") {
    Lab lab;
    auto plain = rl_lines(lab, "plain", {});
    auto shuffled = rl_lines(lab, "shuffled", {"task.shuffle_rewards=true"});
    CHECK(plain.front().at("reward") == shuffled.front().at("reward"));
    CHECK(lab.weights("plain") != lab.weights("shuffled"));
}

}  // namespace fp8rl::test
