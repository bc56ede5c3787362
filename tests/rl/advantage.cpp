// Group advantages: the groups of field case f04, a group worked by hand, and refusals.
#include "rl/advantage.h"

#include <cmath>
#include <limits>

#include "refused.h"

using namespace fp8rl;
using namespace fp8rl::rl;
using test::refusal;
using test::says;

static std::vector<float> one_group(std::vector<double> rewards, AdvantageConfig config) {
    std::vector<int64_t> groups = {0, static_cast<int64_t>(rewards.size())};
    std::vector<std::string> ids = {"train/0"};
    return group_advantages(rewards, groups, ids, config).values;
}

static const AdvantageConfig sample_std{},
    population_std{Baseline::group_mean, AdvantageStd::population, 1e-6},
    mean_only{Baseline::group_mean, AdvantageStd::none, 1e-6},
    leave_one_out{Baseline::leave_one_out, AdvantageStd::none, 1e-6};

TEST_CASE("f04: equal rewards and single samples give exactly zero, and are counted", "[advantage][f04]") {
    auto file = test::read_json("f04_group_advantages.json");
    std::vector<double> rewards;
    std::vector<int64_t> groups = {0};
    std::vector<std::string> ids;
    for (auto& [name, values] : file["input"]["groups"].items()) {
        for (double r : values) rewards.push_back(r);
        groups.push_back(static_cast<int64_t>(rewards.size()));
        ids.push_back(name);
    }
    for (auto std : {AdvantageStd::sample, AdvantageStd::population, AdvantageStd::none})
        for (auto baseline : {Baseline::group_mean, Baseline::leave_one_out}) {
            Advantages a = group_advantages(rewards, groups, ids, {baseline, std, 1e-6});
            CHECK(a.groups == file["expect"]["of_groups"]);
            CHECK(a.equal_groups == file["expect"]["zero_variance_groups"]);
            CHECK(a.groups_all_one == 1);  // D, one sample of 1
            CHECK(a.groups_all_zero == 0);
            for (size_t g = 0; g < ids.size(); ++g) {
                if (!file["expect"][ids[g]].contains("advantages")) continue;
                for (int64_t i = groups[g]; i < groups[g + 1]; ++i) {
                    INFO(ids[g]);
                    CHECK(a.values[i] == 0.0f);
                }
            }
        }
}

TEST_CASE("f04: mixed groups have the advantages of each convention", "[advantage][f04]") {
    auto file = test::read_json("f04_group_advantages.json");
    double tolerance = file["expect"]["abs_tol"];
    for (std::string name : {"E_binary", "F_seven_vs_one"}) {
        std::vector<double> rewards = file["input"]["groups"][name];
        for (auto& [key, config] : {std::pair{"population_std", population_std},
                                    {"sample_std", sample_std},
                                    {"mean_only", mean_only}}) {
            std::vector<double> expected = file["expect"][name][key];
            auto got = one_group(rewards, config);
            for (size_t i = 0; i < expected.size(); ++i) {
                INFO(name << " " << key << " " << i);
                CHECK(std::abs(got[i] - expected[i]) < tolerance);
            }
        }
    }
    std::vector<double> rewards = file["input"]["groups"]["F_seven_vs_one"];
    double singleton = file["expect"]["F_seven_vs_one"]["leave_one_out_singleton"];
    CHECK(one_group(rewards, leave_one_out).back() == Approx(singleton));
}

TEST_CASE("A group worked by hand", "[advantage]") {
    // Rewards 1, 2, 6: mean 3, deviations -2, -1, 3, squares 4 + 1 + 9 = 14.
    // Sample deviation sqrt(14/2) = 2.6457513, population sqrt(14/3) = 2.1602469.
    // Leave one out: 1 - (2+6)/2 = -3, 2 - (1+6)/2 = -1.5, 6 - (1+2)/2 = 4.5.
    auto sample = one_group({1, 2, 6}, sample_std);
    CHECK(sample[0] == Approx(-0.7559289).epsilon(1e-5));
    CHECK(sample[2] == Approx(1.1338934).epsilon(1e-5));
    CHECK(one_group({1, 2, 6}, population_std)[1] == Approx(-0.4629100).epsilon(1e-5));
    CHECK(one_group({1, 2, 6}, mean_only) == std::vector<float>{-2, -1, 3});
    CHECK(one_group({1, 2, 6}, leave_one_out) == std::vector<float>{-3, -1.5, 4.5});
}

TEST_CASE("Epsilon is added to the deviation", "[advantage]") {
    // Rewards 0 and 2: population deviation 1, so with epsilon 1 the advantages are +-1/2.
    CHECK(one_group({0, 2}, {Baseline::group_mean, AdvantageStd::population, 1.0}) ==
          std::vector<float>{-0.5, 0.5});
}

TEST_CASE("A reward that is not finite is refused with its prompt; minus zero is zero", "[advantage]") {
    std::vector<int64_t> groups = {0, 2, 4};
    std::vector<std::string> ids = {"train/7", "train/8"};
    for (double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
        std::vector<double> rewards = {0, 1, 1, bad};
        auto message = refusal([&] { group_advantages(rewards, groups, ids, {}); });
        CHECK(says(message, "train/8"));
        CHECK(says(message, "sample 1"));
    }
    std::vector<double> rewards = {0.0, -0.0, 1, 1};
    Advantages a = group_advantages(rewards, groups, ids, {});
    CHECK(a.equal_groups == 2);
    CHECK(a.groups_all_zero == 1);
    CHECK(a.values == std::vector<float>{0, 0, 0, 0});
}

TEST_CASE("No groups give no advantages", "[advantage]") {
    CHECK(group_advantages({}, {}, {}, {}).values.empty());
    std::vector<int64_t> none = {0};
    CHECK(group_advantages({}, none, {}, {}).groups == 0);
}
