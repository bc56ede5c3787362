// nn/rope: inverse frequencies of every RoPE kind, as transformers' modeling_rope_utils defines them (YaRN:
// Peng et al. 2023, eq. 19-22).
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "nn/spec.h"

namespace fp8rl {

static std::vector<double> plain_frequencies(double theta, int64_t head_dim) {
    std::vector<double> f(static_cast<size_t>(head_dim / 2));
    for (size_t i = 0; i < f.size(); ++i)
        f[i] = 1.0 / std::pow(theta, 2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
    return f;
}

// Long waves are stretched by `factor`, short ones kept, those between blended.
static void scale_llama3(std::vector<double>& f, const RopeSpec& r) {
    const auto original = static_cast<double>(r.original_max_position);
    const double low_wavelength = original / r.low_freq_factor;
    const double high_wavelength = original / r.high_freq_factor;
    for (double& x : f) {
        const double wavelength = 2 * M_PI / x;
        if (wavelength < high_wavelength) continue;
        if (wavelength > low_wavelength) {
            x /= r.factor;
        } else {
            const double smooth =
                (original / wavelength - r.low_freq_factor) / (r.high_freq_factor - r.low_freq_factor);
            x = (1 - smooth) * x / r.factor + smooth * x;
        }
    }
}

static void scale_yarn(std::vector<double>& f, const RopeSpec& r, int64_t head_dim, int64_t original) {
    const auto d = static_cast<double>(head_dim);
    // The pair that turns `rotations` times over the original context.
    auto pair_of = [&](double rotations) {
        return d * std::log(static_cast<double>(original) / (rotations * 2 * M_PI)) / (2 * std::log(r.theta));
    };
    const double low = std::max(std::floor(pair_of(r.beta_fast)), 0.0);
    double high = std::min(std::ceil(pair_of(r.beta_slow)), d - 1);
    if (low == high) high += 0.001;
    for (size_t i = 0; i < f.size(); ++i) {
        const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        f[i] = f[i] / r.factor * ramp + f[i] * (1 - ramp);
    }
}

std::vector<double> inverse_frequencies(const RopeSpec& rope, int64_t head_dim, int64_t max_position) {
    std::vector<double> f = plain_frequencies(rope.theta, head_dim);
    switch (rope.kind) {
        case RopeSpec::Kind::standard: break;
        case RopeSpec::Kind::linear:
            for (double& x : f) x /= rope.factor;
            break;
        case RopeSpec::Kind::llama3: scale_llama3(f, rope); break;
        case RopeSpec::Kind::yarn:
            // The original context, when not given, is the one that positions are declared for.
            scale_yarn(f, rope, head_dim,
                       rope.original_max_position ? rope.original_max_position : max_position);
            break;
    }
    return f;
}

double attention_factor(const RopeSpec& rope) {
    if (rope.kind != RopeSpec::Kind::yarn) return 1;
    if (rope.attention_factor > 0) return rope.attention_factor;
    return rope.factor <= 1 ? 1.0 : 0.1 * std::log(rope.factor) + 1;
}

}  // namespace fp8rl
