#include "rl/exp.h"

#include <algorithm>
#include <cmath>

namespace fp8rl::rl {

// sum over n >= first of x^(n - first) / n!, for abs(x) <= 0.5; the 18th term is below 2^-60 of the first.
static double exp_tail(double x, int first) {
    double term = 1;
    for (int n = 2; n <= first; ++n) term /= n;
    double coefficients[18];
    for (int i = 0; i < 18; ++i) {
        coefficients[i] = term;
        term /= first + i + 1;
    }
    double sum = 0;
    for (int i = 17; i >= 0; --i) sum = sum * x + coefficients[i];
    return sum;
}

double exp(double x) {
    if (std::isnan(x)) return x;
    x = std::clamp(x, -700.0, 700.0);
    // ln 2 in two parts; the first has 21 trailing zero bits, so k * ln2_high is exact.
    constexpr double ln2_high = 6.93147180369123816490e-01, ln2_low = 1.90821492927058770002e-10;
    double k = std::nearbyint(x * 1.44269504088896338700);
    double r = (x - k * ln2_high) - k * ln2_low;
    return std::ldexp(1 + r * exp_tail(r, 1), static_cast<int>(k));
}

double exp_residue(double x) {
    if (std::abs(x) <= 0.5) return x * x * exp_tail(x, 2);
    return exp(x) - 1 - x;
}

double log_cosh_half(double x) {
    // With u = e^-|x|: log((1 + u) / 2) + |x| / 2; the logarithm by atanh: log y = 2 atanh((y - 1) / (y +
    // 1)).
    double a = std::abs(x), half = a / 2;
    if (a < 1e-2) {  // log cosh h = h^2/2 - h^4/12 + h^6/45 - ...
        double h = half * half;
        return h * (0.5 + h * (-1.0 / 12 + h / 45));
    }
    double u = exp(-a);
    double s = (u - 1) / (u + 3);  // y = (1 + u) / 2, in (-1/3, 0]
    double sum = 0;
    for (int n = 17; n >= 0; --n) sum = sum * s * s + 1.0 / (2 * n + 1);
    return half + 2 * s * sum;
}

}  // namespace fp8rl::rl
