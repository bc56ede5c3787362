// Claims about schedules and micro-batches, worked by hand.
#include "rl/optimizer.h"

#include "rl/update.h"
#include "test.h"

using namespace fp8rl;
using namespace fp8rl::rl;

TEST_CASE("the learning rate rises over the warm-up, then follows its schedule to the final fraction") {
    OptimizerSettings s;
    s.lr = 1.0;
    s.warmup_steps = 4;
    s.total_steps = 13;
    s.final_fraction = 0.1;
    CHECK(learning_rate(s, 0) == Approx(0.25));  // the first update already moves
    CHECK(learning_rate(s, 3) == Approx(1.0));
    CHECK(learning_rate(s, 12) == 1.0);  // constant
    s.schedule = LrSchedule::linear;
    CHECK(learning_rate(s, 4) == Approx(1.0));
    CHECK(learning_rate(s, 8) == Approx(0.55));  // half way from 1 to 0.1
    CHECK(learning_rate(s, 12) == Approx(0.1));
    CHECK(learning_rate(s, 100) == Approx(0.1));
    s.schedule = LrSchedule::cosine;
    CHECK(learning_rate(s, 4) == Approx(1.0));
    CHECK(learning_rate(s, 6) == Approx(0.1 + 0.9 * 0.8535533906));  // (1 + cos 45 degrees) / 2
    CHECK(learning_rate(s, 8) == Approx(0.55));
    CHECK(learning_rate(s, 12) == Approx(0.1));
}

TEST_CASE(
    "micro-batches keep the order, feed all tokens but the last, and refuse a sequence that is too long") {
    std::vector<Sample> samples(5);
    const size_t lengths[] = {4, 6, 3, 9, 2};
    for (size_t i = 0; i < 5; ++i)
        samples[i].tokens.assign(lengths[i], 0), samples[i].id = "s" + std::to_string(i);
    const std::vector<size_t> all = {0, 1, 2, 3, 4};
    // Rows: 3, 5, 2, 8, 1.
    CHECK(micro_batches(samples, all, 10) == std::vector<std::vector<size_t>>{{0, 1, 2}, {3, 4}});
    CHECK(micro_batches(samples, all, 8) == std::vector<std::vector<size_t>>{{0, 1}, {2}, {3}, {4}});
    try {
        micro_batches(samples, all, 7);
        FAIL("a sequence of 8 rows in a micro-batch of 7");
    } catch (const Error& e) {
        CHECK(std::string(e.what()).find("s3") != std::string::npos);
        CHECK(e.exit_code() == 2);
    }
}
