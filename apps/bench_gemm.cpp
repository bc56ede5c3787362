#include <algorithm>
#include <cstdio>
#include <functional>
#include <vector>

#include "apps/bench.h"
#include "core/rng.h"
#include "run/log.h"
#include "run/time_limit.h"

namespace fp8rl::apps {
namespace {

// Memory of the backend with an arena over it.
struct Memory {
    Memory(Backend& b, size_t bytes) : backend(b), data(b.allocate(bytes)), arena("bench", data, bytes) {}
    ~Memory() { backend.release(data); }
    Backend& backend;
    void* data;
    Arena arena;
};

double best_seconds(const std::function<void()>& f) {
    double best = 1e30;
    const double start = run::monotonic_seconds();
    for (int i = 0; i < 3 || run::monotonic_seconds() - start < 0.15; ++i) {
        const double begin = run::monotonic_seconds();
        f();
        best = std::min(best, run::monotonic_seconds() - begin);
    }
    return best;
}

}  // namespace

void bench_gemm(run::Record& record, Backend& backend, const ModelSpec& spec, double dot) {
    Memory memory(backend, size_t{512} << 20);
    struct Product {
        const char* name;
        int64_t n, k;
    };
    const Product products[] = {{"attention", spec.heads * spec.head_dim, spec.hidden},
                                {"ffn_up", spec.ffn, spec.hidden},
                                {"ffn_down", spec.hidden, spec.ffn}};
    struct Kind {
        const char* name;
        QuantSpec weight, activation;
    };
    const Kind kinds[] = {{"bf16", QuantSpec::bf16(), QuantSpec::bf16()},
                          {"blockwise", QuantSpec::block_128x128(), QuantSpec::block_1x128()},
                          {"mxfp8", QuantSpec::mx(), QuantSpec::mx()}};
    for (const auto& p : products)
        for (const auto& kind : kinds)
            for (int64_t m : {int64_t{1}, int64_t{8}, int64_t{32}, int64_t{512}, int64_t{4096}}) {
                auto scope = memory.arena.scope();
                Tensor master = memory.arena.tensor(DType::f32, {p.n, p.k});
                Tensor xf = memory.arena.tensor(DType::f32, {m, p.k}),
                       x = memory.arena.tensor(DType::bf16, {m, p.k});
                Random random(1, Stream::bench);
                std::vector<float> host(static_cast<size_t>(std::max(p.n, m) * p.k));
                for (auto& v : host) v = 0.05f * (random.uniform() - 0.5f);
                backend.upload(master, host.data());
                backend.upload(xf, host.data());
                backend.copy(x, xf);
                WeightSpec layout;
                layout.forward = kind.weight;
                Weight w = backend.reserve_weight(p.n, p.k, layout, memory.arena);
                backend.prepare(w, master);
                Tensor c = memory.arena.tensor(DType::bf16, {m, p.n});
                Operand a = backend.quantize(x, kind.activation, Side::a, false, memory.arena);
                const double s = best_seconds([&] { backend.gemm(c, a, w.forward); });
                const double gflops = 2e-9 * static_cast<double>(m * p.n * p.k) / s;
                const std::string key = cat("gemm/", p.name, "/", kind.name, "/", m);
                record.set(key + "/gflops", gflops).set(key + "/fraction_of_dot_peak", gflops / dot);
                char line[160];
                std::snprintf(line, sizeof line,
                              "gemm %-9s %5lld x %4lld x %4lld %-9s %7.1f GFLOP/s, %5.1f %% of the dot peak",
                              p.name, static_cast<long long>(m), static_cast<long long>(p.n),
                              static_cast<long long>(p.k), kind.name, gflops, 100 * gflops / dot);
                run::log::info(line);
            }
}

}  // namespace fp8rl::apps
