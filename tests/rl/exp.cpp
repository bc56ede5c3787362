// The transcendental functions of losses: against the C library, and where cancellation would show.
#include "rl/exp.h"

#include <cmath>

#include "core/rng.h"
#include "test.h"

using namespace fp8rl;

static double relative(double x, double expected) { return std::abs(x - expected) / std::abs(expected); }

TEST_CASE("exp is within a few units in the last place of the C library's", "[exp]") {
    Random random(1, Stream::test);
    double worst = 0;
    for (int i = 0; i < 20000; ++i) {
        double x = (random.uniform() - 0.5) * 80;
        worst = std::max(worst, relative(rl::exp(x), std::exp(x)));
    }
    CHECK(worst < 1e-15);
    CHECK(rl::exp(0) == 1);
    CHECK(rl::exp(-0.0) == 1);
    CHECK(relative(rl::exp(1), 2.718281828459045) < 4e-16);
}

TEST_CASE("exp is finite for every finite argument and keeps NaN", "[exp]") {
    CHECK(std::isfinite(rl::exp(1e308)));
    CHECK(rl::exp(-1e308) > 0);
    CHECK(std::isnan(rl::exp(std::nan(""))));
}

TEST_CASE("exp_residue does not cancel near zero and is never negative", "[exp]") {
    // x^2/2 + x^3/6 + ...: at 1e-8 the third term is 3e-9 of the second.
    CHECK(relative(rl::exp_residue(1e-8), 5e-17 * (1 + 1e-8 / 3)) < 1e-15);
    CHECK(relative(rl::exp_residue(-1e-4), 5e-9 * (1 - 1e-4 / 3 + 1e-8 / 12)) < 1e-12);
    CHECK(rl::exp_residue(0) == 0);
    CHECK(relative(rl::exp_residue(1), 0.718281828459045) < 1e-15);
    CHECK(relative(rl::exp_residue(-3), 0.049787068367863944 + 2) < 1e-15);
    for (double x = -20; x <= 20; x += 0.0371) CHECK(rl::exp_residue(x) >= 0);
}

TEST_CASE("log_cosh_half is log cosh(x / 2), even and continuous across its two branches", "[exp]") {
    for (double x : {0.02, 0.5, 1.0, 3.0, 11.0, 40.0}) {
        CHECK(relative(rl::log_cosh_half(x), std::log(std::cosh(x / 2))) < 1e-11);
        CHECK(rl::log_cosh_half(-x) == rl::log_cosh_half(x));
    }
    CHECK(rl::log_cosh_half(0) == 0);
    CHECK(relative(rl::log_cosh_half(1e-6), 1.25e-13) < 1e-12);
    CHECK(relative(rl::log_cosh_half(std::nextafter(1e-2, 0)), rl::log_cosh_half(1e-2)) < 1e-10);
}
