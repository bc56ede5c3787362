// Evaluation statistics and keyed permutations, by hand-counted cases.
#include "rl/statistics.h"

#include <algorithm>
#include <set>
#include <vector>

#include "rl/permutation.h"
#include "test.h"

using namespace fp8rl::rl;

TEST_CASE("pass@k is 1 - C(n - c, k) / C(n, k)", "[statistics]") {
    CHECK(pass_at_k(5, 2, 2) == Approx(1 - 3.0 / 10));     // C(3,2) / C(5,2)
    CHECK(pass_at_k(10, 3, 5) == Approx(1 - 21.0 / 252));  // C(7,5) / C(10,5)
    CHECK(pass_at_k(200, 1, 100) == Approx(0.5));          // one right sample, half of them drawn
    CHECK(pass_at_k(8, 3, 1) == Approx(3.0 / 8));
    CHECK(pass_at_k(4, 0, 4) == 0);
    CHECK(pass_at_k(4, 4, 1) == 1);
    CHECK(pass_at_k(4, 2, 3) == 1);  // only two are wrong
    CHECK_THROWS(pass_at_k(4, 2, 5));
}

TEST_CASE("pass@k is the mean over all draws", "[statistics]") {
    // Every pair out of 6 samples, of which samples 0 and 1 are right: 9 of 15 pairs hold a right one.
    int hits = 0, pairs = 0;
    for (int i = 0; i < 6; ++i)
        for (int j = i + 1; j < 6; ++j) ++pairs, hits += i < 2 || j < 2;
    CHECK(pass_at_k(6, 2, 2) == Approx(static_cast<double>(hits) / pairs));
}

TEST_CASE("The consensus is the most frequent answer, the earliest among equals, never an empty one",
          "[statistics]") {
    using Answers = std::vector<std::string>;
    CHECK(consensus(Answers{"7", "8", "8", "7", "8"}) == 1);
    CHECK(consensus(Answers{"9", "7", "7", "9"}) == 0);
    CHECK(consensus(Answers{"", "", "", "4"}) == 3);
    CHECK(consensus(Answers{"", ""}) == -1);
    CHECK(consensus(Answers{}) == -1);
}

TEST_CASE("An estimate has the mean and 1.96 standard errors", "[statistics]") {
    // 0 1 1 1: mean 3/4, squares 9/16 + 3/16 = 3/4, sample variance 1/4, standard error 1/2 / 2.
    Estimate e = estimate(std::vector<double>{0, 1, 1, 1});
    CHECK(e.mean == 0.75);
    CHECK(e.half_width == Approx(1.96 * 0.25));
    CHECK(e.count == 4);
    CHECK(estimate(std::vector<double>{0.5}).half_width == 0);
    CHECK(estimate({}).count == 0);
}

TEST_CASE("Every epoch is a permutation, and another one", "[permutation]") {
    for (uint64_t size : {1, 2, 3, 7, 16, 17, 100, 1000}) {
        std::vector<uint64_t> first, second;
        for (uint64_t i = 0; i < size; ++i) first.push_back(shuffled_index(5, 0, i, size));
        for (uint64_t i = 0; i < size; ++i) second.push_back(shuffled_index(5, 1, i, size));
        if (size >= 16) CHECK(first != second);
        CHECK(std::set<uint64_t>(first.begin(), first.end()).size() == size);
        CHECK(std::set<uint64_t>(second.begin(), second.end()).size() == size);
        CHECK(*std::max_element(first.begin(), first.end()) == size - 1);
    }
}

TEST_CASE("An epoch's order has no trace of the file's", "[permutation]") {
    // Mean distance of neighbours in a random order of n is n/3, and half the steps rise.
    const uint64_t n = 4096;
    double distance = 0;
    int rises = 0;
    for (uint64_t i = 1; i < n; ++i) {
        auto a = shuffled_index(1, 0, i - 1, n), b = shuffled_index(1, 0, i, n);
        distance += a < b ? b - a : a - b;
        rises += a < b;
    }
    CHECK(distance / n == Approx(n / 3.0).epsilon(0.05));
    CHECK(rises == Approx(n / 2).epsilon(0.05));
}

TEST_CASE("Shuffled rewards are the same rewards elsewhere, by seed and step", "[permutation]") {
    std::vector<double> rewards;
    for (int i = 0; i < 64; ++i) rewards.push_back(i);
    auto a = shuffled_rewards(rewards, 1, 10);
    CHECK(a != rewards);
    CHECK(shuffled_rewards(rewards, 1, 10) == a);
    CHECK(shuffled_rewards(rewards, 1, 11) != a);
    CHECK(shuffled_rewards(rewards, 2, 10) != a);
    int at_home = 0;
    for (int i = 0; i < 64; ++i) at_home += a[i] == i;
    CHECK(at_home < 8);  // one is expected
    std::sort(a.begin(), a.end());
    CHECK(a == rewards);
    CHECK(shuffled_rewards({}, 1, 1).empty());
}
