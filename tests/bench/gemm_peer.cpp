// bench_gemm_peer: the CPU kernels' targets (issue section 10) in one process, alternately, so that
// neighbours disturb both sides alike: BF16 GEMM against oneDNN, W8A8 blockwise against our BF16, decode with
// FP8 weights against BF16 weights that no cache holds, and all GEMMs of a training pass against the measured
// dot peak. Usage: bench_gemm_peer [threads] [seconds a line] [prefill | training | decode]
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/parallel.h"
#include "cpu/cpu_backend.h"
#include "cpu/gemm.h"
#include "cpu/memory.h"
#include "cpu/peak.h"
#include "cpu/quantize.h"
#include "cpu/weight.h"
#include "quant/formats.h"

using namespace fp8rl;

namespace {

bool one_thread = true;

// One thread is timed by the processor time it got, which busy neighbours lengthen least.
double now() {
    timespec t;
    clock_gettime(one_thread ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Least time of each, taken in turn until the budget is spent.
std::vector<double> best_of(const std::vector<std::function<void()>>& runs, double budget) {
    std::vector<double> best(runs.size(), 1e30);
    for (const auto& r : runs) r();
    const double start = now();
    for (int round = 0; round < 3 || now() - start < budget; ++round)
        for (size_t i = 0; i < runs.size(); ++i) {
            const double begin = now();
            runs[i]();
            best[i] = std::min(best[i], now() - begin);
        }
    return best;
}

struct Peer {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    dnnl::matmul multiply;
    std::unordered_map<int, dnnl::memory> args;
    Peer(int64_t m, int64_t n, int64_t k, void* a, void* w, void* c) {
        using dt = dnnl::memory::data_type;
        using tag = dnnl::memory::format_tag;
        const dnnl::memory::desc da({m, k}, dt::bf16, tag::ab), any({k, n}, dt::bf16, tag::any);
        const dnnl::memory::desc dw({k, n}, dt::bf16, tag::ba), dc({m, n}, dt::f32, tag::ab);
#if DNNL_VERSION_MAJOR >= 3
        dnnl::matmul::primitive_desc pd(engine, da, any, dc);
#else
        dnnl::matmul::primitive_desc pd(dnnl::matmul::desc(da, any, dc), engine);
#endif
        multiply = dnnl::matmul(pd);
        dnnl::memory from(dw, engine, w), packed(pd.weights_desc(), engine);
        dnnl::reorder(from, packed).execute(stream, from, packed);
        stream.wait();
        args = {{DNNL_ARG_SRC, dnnl::memory(da, engine, a)},
                {DNNL_ARG_WEIGHTS, packed},
                {DNNL_ARG_DST, dnnl::memory(dc, engine, c)}};
    }
    void run() {
        multiply.execute(stream, args);
        stream.wait();
    }
};

struct Memory {
    size_t bytes;
    void* base;
    Arena arena;
    explicit Memory(size_t n) : bytes(n), base(cpu::allocate(n)), arena("bench", base, n) {}
    ~Memory() { cpu::release(base); }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    Tensor bf16s(int64_t rows, int64_t cols) {
        Tensor t = arena.tensor(DType::bf16, {rows, cols});
        for (int64_t i = 0; i < t.size(); ++i)
            t.as<bf16>()[i] = to_bf16(static_cast<float>(i * 7919 % 255 - 127) / 64);
        return t;
    }
    Weight weight(int64_t out, int64_t in, const WeightSpec& spec) {
        Weight w = cpu::reserve_weight(out, in, spec, arena);
        std::vector<float> master(static_cast<size_t>(out * in));
        for (size_t i = 0; i < master.size(); ++i)
            master[i] = static_cast<float>(i * 7907 % 251) / 1000 - 0.125f;
        cpu::prepare(w, Tensor(master.data(), DType::f32, {out, in}));
        return w;
    }
};

const QuantSpec rows128 = QuantSpec::block_1x128(), square128 = QuantSpec::block_128x128();

WeightSpec blockwise(bool backward) { return {square128, backward, square128, false}; }
WeightSpec plain(bool backward) { return {QuantSpec::bf16(), backward, QuantSpec::bf16(), false}; }

void prefill(double budget) {
    std::printf("GFLOP/s            oneDNN bf16   ours bf16  (ratio)  W8A8 GEMM (of bf16)  quantize adds\n");
    struct Shape {
        int64_t m, n, k;
    };
    for (Shape s : {Shape{512, 576, 576},
                    {512, 1536, 576},
                    {512, 576, 1536},
                    {4096, 576, 576},
                    {4096, 1536, 576},
                    {4096, 576, 1536}}) {
        Memory memory(size_t{192} << 20);
        Tensor x = memory.bf16s(s.m, s.k), w = memory.bf16s(s.n, s.k);
        Tensor c = memory.arena.tensor(DType::f32, {s.m, s.n}),
               y = memory.arena.tensor(DType::bf16, {s.m, s.n});
        Weight half = memory.weight(s.n, s.k, plain(false)),
               codes = memory.weight(s.n, s.k, blockwise(false));
        Operand a = cpu::quantize(x, QuantSpec::bf16(), Side::a, false, memory.arena, {});
        Operand q = cpu::quantize(x, rows128, Side::a, false, memory.arena, {});
        Peer peer(s.m, s.n, s.k, x.data, w.data, c.data);
        const auto t = best_of({[&] { peer.run(); }, [&] { cpu::gemm(y, a, half.forward, false); },
                                [&] { cpu::gemm(y, q, codes.forward, false); },
                                [&] {
                                    Arena::Scope scope = memory.arena.scope();
                                    cpu::quantize(x, rows128, Side::a, false, memory.arena, {});
                                }},
                               budget);
        const double flop = 2e-9 * static_cast<double>(s.m * s.n * s.k);
        std::printf("%4ld x %4ld x %4ld  %10.1f  %10.1f   %5.2f   %10.1f    %5.2f      %5.1f %%\n",
                    static_cast<long>(s.m), static_cast<long>(s.n), static_cast<long>(s.k), flop / t[0],
                    flop / t[1], t[0] / t[1], flop / t[2], t[1] / t[2], 100 * t[3] / t[2]);
    }
}

// SmolLM2-135M: its linear layers, with q, k and v, and gate and up, side by side.
const std::pair<int64_t, int64_t> layer_shapes[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
constexpr int layers = 30;

void decode(double budget) {
    Memory memory(size_t{520} << 20);
    std::vector<Weight> half, codes;
    for (int l = 0; l < layers; ++l)
        for (auto [n, k] : layer_shapes) {
            half.push_back(memory.weight(n, k, plain(false)));
            codes.push_back(memory.weight(n, k, blockwise(false)));
        }
    std::printf("decode, ms a step  bf16      FP8 weights   W8A8      FP8 / bf16   W8A8 / bf16\n");
    for (int64_t m : {1, 2, 3, 4, 6, 8, 12, 13, 16, 24, 32, 64}) {
        Arena::Scope scope = memory.arena.scope();
        std::vector<Operand> plain_x, coded_x;
        for (auto [n, k] : layer_shapes) {
            Tensor x = memory.bf16s(m, k);
            plain_x.push_back(cpu::quantize(x, QuantSpec::bf16(), Side::a, false, memory.arena, {}));
            coded_x.push_back(cpu::quantize(x, rows128, Side::a, false, memory.arena, {}));
        }
        Tensor y = memory.arena.tensor(DType::bf16, {m, 3072});
        const auto pass = [&](const std::vector<Weight>& w, const std::vector<Operand>& x) {
            for (size_t i = 0; i < w.size(); ++i)
                cpu::gemm(Tensor(y.data, DType::bf16, {m, w[i].out}), x[i % 4], w[i].forward, false);
        };
        const auto t = best_of(
            {[&] { pass(half, plain_x); }, [&] { pass(codes, plain_x); }, [&] { pass(codes, coded_x); }},
            budget * 2);
        std::printf("M = %2ld           %7.2f     %7.2f   %7.2f       %5.2f        %5.2f\n",
                    static_cast<long>(m), t[0] * 1e3, t[1] * 1e3, t[2] * 1e3, t[0] / t[1], t[0] / t[2]);
    }
}

// Forward, input gradient and weight gradient of one layer's GEMMs at 1216 tokens; all quantization included.
void training(double budget, double peak) {
    constexpr int64_t tokens = 1216;
    for (bool fp8 : {false, true}) {
        Memory memory(size_t{256} << 20);
        const QuantSpec act = fp8 ? rows128 : QuantSpec::bf16();
        double flop = 0;
        std::vector<std::function<void()>> parts(4);
        struct Linear {
            Weight w;
            Tensor x, y, dy, dx, dw;
        };
        std::vector<Linear> all;
        for (auto [n, k] : layer_shapes) {
            all.push_back({memory.weight(n, k, fp8 ? blockwise(true) : plain(true)), memory.bf16s(tokens, k),
                           memory.bf16s(tokens, n), memory.bf16s(tokens, n), memory.bf16s(tokens, k),
                           memory.arena.tensor(DType::f32, {n, k})});
            flop += 6e-9 * static_cast<double>(tokens * n * k);
        }
        Arena& arena = memory.arena;
        const auto each = [&](auto f) {
            return [&, f] {
                for (Linear& l : all) {
                    Arena::Scope scope = arena.scope();
                    f(l);
                }
            };
        };
        const auto forward = each([&](Linear& l) {
            cpu::gemm(l.y, cpu::quantize(l.x, act, Side::a, false, arena, {}), l.w.forward, false);
        });
        const auto input = each([&](Linear& l) {
            cpu::gemm(l.dx, cpu::quantize(l.dy, act, Side::a, false, arena, {}), l.w.backward, false);
        });
        const auto weight = each([&](Linear& l) {
            const Operand a = cpu::quantize(l.dy, act, Side::a, true, arena, {});
            cpu::gemm(l.dw, a, cpu::quantize(l.x, act, Side::b, true, arena, {}), true);
        });
        const auto quantize = each([&](Linear& l) {
            if (fp8) cpu::quantize(l.x, act, Side::a, false, arena, {});
            if (fp8) cpu::quantize(l.dy, act, Side::a, false, arena, {});
            cpu::quantize(l.dy, act, Side::a, true, arena, {});
            cpu::quantize(l.x, act, Side::b, true, arena, {});
        });
        const auto t = best_of({forward, input, weight, quantize}, budget * 3);
        const double total = t[0] + t[1] + t[2];
        std::printf(
            "training %s: forward %.0f, dgrad %.0f, wgrad %.0f GFLOP/s with quantization; all %.0f = %.1f %% "
            "of peak; "
            "quantization %.1f %% of the time\n",
            fp8 ? "W8A8" : "bf16", flop / 3 / t[0], flop / 3 / t[1], flop / 3 / t[2], flop / total,
            100 * flop / total / peak, 100 * t[3] / total);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
    const double budget = argc > 2 ? std::atof(argv[2]) : 0.3;
    if (!std::getenv("OMP_NUM_THREADS")) {  // oneDNN's threads read it before main
        setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 1);
        execv("/proc/self/exe", argv);
    }
    one_thread = threads == 1;
    parallel::set_threads(threads);
    const double peak = cpu::dot_peak();
    std::printf("%s, %d threads: dot peak %.1f GFLOP/s, reads %.1f GB/s\n", cpu::name_of(cpu::simd()),
                threads, peak, cpu::read_peak());
    const std::string only = argc > 3 ? argv[3] : "";
    if (only.empty() || only == "prefill") prefill(budget);
    if (only.empty() || only == "training") training(budget, peak);
    if (only.empty() || only == "decode") decode(budget);
}
