// nn/elementary: Taylor series after exact range reduction.
#include "nn/elementary.h"

#include <bit>
#include <cstdint>

namespace fp8rl {

// Ratios of neighbouring Taylor coefficients.
static constexpr struct Steps {
    double sin[9] = {}, cos[9] = {};
    constexpr Steps() {
        for (int k = 1; k <= 8; ++k) {
            sin[k] = 1.0 / ((2.0 * k) * (2.0 * k + 1.0));
            cos[k] = 1.0 / ((2.0 * k - 1.0) * (2.0 * k));
        }
    }
} step;

// x = q * pi/2 + r with |r| <= pi/4: pi/2 in three parts of 33 bits (fdlibm's), so that q * part is exact for
// q below 2^20 and the error stays below 1e-17 * q beyond.
SinCos sin_cos(double x) {
    constexpr double part1 = 1.57079632673412561417e+00, part2 = 6.07710050630396597660e-11,
                     part3 = 2.02226624879595063154e-21;
    const double turns = x * 6.36619772367581382433e-01;
    const auto q = static_cast<int64_t>(turns + (turns < 0 ? -0.5 : 0.5));
    const double n = static_cast<double>(q);
    const double r = ((x - n * part1) - n * part2) - n * part3;
    const double z = r * r;
    double s = 0, c = 0;
    for (int k = 8; k >= 1; --k) {
        s = -(1.0 + s) * (z * step.sin[k]);
        c = -(1.0 + c) * (z * step.cos[k]);
    }
    s = r + r * s;
    c = 1.0 + c;
    switch (q & 3) {
        case 0: return {s, c};
        case 1: return {c, -s};
        case 2: return {-s, -c};
        default: return {-c, s};
    }
}

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)); log m = 2 atanh((m - 1) / (m + 1)).
double natural_log(double x) {
    constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    constexpr double root_half = 0.70710678118654752440;
    const auto bits = std::bit_cast<uint64_t>(x);
    auto e = static_cast<int>(bits >> 52) - 1022;
    double m = std::bit_cast<double>((bits & 0xfffffffffffffull) | (uint64_t{1022} << 52));  // [1/2, 1)
    if (m < root_half) m *= 2, --e;
    const double t = (m - 1) / (m + 1), z = t * t;
    double series = 0;
    for (int k = 21; k >= 1; k -= 2) series = series * z + 1.0 / k;
    return e * ln2_high + (2 * t * series + e * ln2_low);
}

}  // namespace fp8rl
