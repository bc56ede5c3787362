// nn/initialize: weights from a seed. Element e of parameter p is a pure function of (seed, name of p, e): no
// dependence on threads, on the order of parameters, or on the C library.
#include <cmath>

#include "core/parallel.h"
#include "core/rng.h"
#include "nn/elementary.h"
#include "nn/model.h"

namespace fp8rl {

// FNV-1a.
static uint64_t hash_of(const std::string& s) {
    uint64_t h = 0xcbf29ce484222325ull;
    for (char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
    return h;
}

static bool ends_with(const std::string& s, const std::string& end) {
    return s.size() >= end.size() && s.compare(s.size() - end.size(), end.size(), end) == 0;
}

// Elements 4 * group .. 4 * group + 3: Box-Muller on one Philox block.
static void normals(float out[4], std::array<uint32_t, 2> key, uint64_t name, uint64_t group, double std) {
    const auto bits = philox({static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32),
                              static_cast<uint32_t>(name), static_cast<uint32_t>(name >> 32)},
                             key);
    for (int i = 0; i < 4; i += 2) {
        const double u = (bits[i] + 1.0) * 0x1p-32, v = bits[i + 1] * 0x1p-32;
        const double radius = std::sqrt(-2.0 * natural_log(u));
        const auto [sine, cosine] = sin_cos(6.283185307179586 * v);
        out[i] = static_cast<float>(std * radius * cosine);
        out[i + 1] = static_cast<float>(std * radius * sine);
    }
}

void Model::initialize(uint64_t seed, double std) {
    const auto mixed = philox({static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32),
                               static_cast<uint32_t>(Stream::init), 0},
                              {0x66703872u, 0x6c000000u});
    const std::array<uint32_t, 2> key = {mixed[0], mixed[1]};
    const double residual_std = std / std::sqrt(2.0 * static_cast<double>(spec().layers));
    std::vector<std::vector<float>> staging(static_cast<size_t>(parallel::threads()));
    params().visit([&](Param& p) {
        if (p.kind == Param::Kind::vector) {
            const std::vector<float> values(static_cast<size_t>(p.cols),
                                            ends_with(p.name, ".bias") ? 0.0f : 1.0f);
            backend().upload(p.master, values.data());
            return;
        }
        const uint64_t name = hash_of(p.name);
        const bool residual = ends_with(p.name, ".o_proj.weight") || ends_with(p.name, ".down_proj.weight");
        const double s = residual ? residual_std : std;
        const int64_t grain = std::max<int64_t>(1, 16384 / p.cols);
        parallel::for_range(p.rows, grain, [&](int64_t begin, int64_t end, int worker) {
            auto& buffer = staging[static_cast<size_t>(worker)];
            for (int64_t row = begin; row < end; row += grain) {
                const int64_t rows = std::min(grain, end - row), n = rows * p.cols, first = row * p.cols;
                buffer.resize(static_cast<size_t>(n));
                float four[4];
                int64_t made = -1;
                for (int64_t i = 0; i < n; ++i) {
                    const int64_t e = first + i;
                    if (e / 4 != made) normals(four, key, name, static_cast<uint64_t>(made = e / 4), s);
                    buffer[static_cast<size_t>(i)] = four[e % 4];
                }
                backend().upload(p.master.row_range(row, rows), buffer.data());
            }
        });
    });
}

}  // namespace fp8rl
