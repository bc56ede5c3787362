// Claims about pages: the pool's books, and how many a rollout gets.
#include "rollout/budget.h"

#include <set>

#include "rollout/refusal.h"

using namespace fp8rl;

TEST_CASE("a page pool hands out each page once, counts users, and never more than there are") {
    PagePool pool(3);
    std::set<int32_t> pages;
    for (int i = 0; i < 3; ++i) pages.insert(pool.allocate().value());
    CHECK(pages == std::set<int32_t>{0, 1, 2});
    CHECK_FALSE(pool.allocate().has_value());
    pool.share(1);
    pool.release(1);
    CHECK_FALSE(pool.allocate().has_value());
    pool.release(1);
    CHECK(pool.allocate() == 1);
    CHECK(pool.used() == 3);
    for (int32_t p : pages) pool.release(p);
    CHECK(pool.used() == 0);
    CHECK(pool.max_used() == 3);
    CHECK_THROWS_AS(pool.release(0), Error);
    CHECK_THROWS_AS(pool.share(0), Error);
}

TEST_CASE("pages hold 16 tokens") {
    CHECK(pages_for(0) == 0);
    CHECK(pages_for(1) == 1);
    CHECK(pages_for(16) == 1);
    CHECK(pages_for(17) == 2);
}

TEST_CASE("pages needed: full prompt pages count once a group, everything else once a sequence") {
    RolloutShape shape{2, 4, 32, 17, true};  // 2 full prompt pages; position 48 is never an input: 3 pages
    CHECK(shape.sequence_pages() == 3);
    // All 8 requests at once: 2 groups x 2 pages, and 8 x 2: a shorter prompt may share a page with
    // completions.
    CHECK(pages_needed(shape, 8) == 2 * 2 + 8 * 2);
    CHECK(pages_needed(shape, 100) == pages_needed(shape, 8));
    // One slot: 3 pages, and a prompt of 2 pages with a partly filled one held for the next member.
    CHECK(pages_needed(shape, 1) == 3 + 2);
    shape.prefix_sharing = false;
    CHECK(pages_needed(shape, 8) == 8 * 3);
}

TEST_CASE("the budget follows the recipe: what is given holds, what is auto fits") {
    RolloutShape shape{8, 8, 100, 29, true};  // 8 pages a sequence
    const size_t page = 1000, plenty = 1 << 30;
    SECTION("both auto: every request has a slot, none is preempted") {
        RolloutBudget b = choose_budget(shape, {}, {}, page, plenty);
        CHECK(b.slots == 64);
        CHECK(b.pages == pages_needed(shape, 64));
        CHECK(b.bytes == static_cast<size_t>(b.pages) * page);
        CHECK_FALSE(b.may_preempt);
    }
    SECTION("both auto and little memory: fewer slots") {
        RolloutBudget b = choose_budget(shape, {}, {}, page, 40 * page);
        CHECK(b.slots < 64);
        CHECK(b.slots >= 1);
        CHECK(b.pages <= 40);
        CHECK_FALSE(b.may_preempt);
        CHECK(pages_needed(shape, b.slots + 1) > 40);
    }
    SECTION("slots given and little memory: preemption instead") {
        RolloutBudget b = choose_budget(shape, 16, 40 * page, page, plenty);
        CHECK(b.slots == 16);
        CHECK(b.pages == 40);
        CHECK(b.may_preempt);
    }
    SECTION("more slots than requests are not used") {
        CHECK(choose_budget(shape, 999, {}, page, plenty).slots == 64);
    }
    SECTION("memory for one sequence is enough, less is refused with both numbers") {
        CHECK(choose_budget(shape, {}, 8 * page, page, plenty).pages == 8);
        std::string m = test::refusal([&] { choose_budget(shape, {}, 8 * page - 1, page, plenty); });
        CHECK(test::has(m, "kv_memory"));
        CHECK(test::has(m, "7 pages"));
        CHECK(test::has(m, "needs 8"));
        m = test::refusal([&] { choose_budget(shape, 0, {}, page, plenty); });
        CHECK(test::has(m, "rollout.slots: 0"));
    }
}
