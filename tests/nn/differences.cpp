// Gradients by finite differences, in fp32: the whole model for each of its features, then module by module.
#include "nn/block.h"
#include "tiny.h"

namespace fp8rl {
namespace {

using namespace test;

double dot(const std::vector<float>& x, const std::vector<float>& y) {
    REQUIRE(x.size() == y.size());
    double s = 0;
    for (size_t i = 0; i < x.size(); ++i) s += static_cast<double>(x[i]) * y[i];
    return s;
}

// x + step * direction, on the device.
void move(Tensor t, const std::vector<float>& x, const std::vector<float>& direction, double step) {
    std::vector<float> y(x.size());
    for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(x[i] + step * direction[i]);
    device().upload(t, y.data());
}

// (f(x + s d) - f(x - s d)) / 2s, twice, extrapolated to s = 0 (Richardson).
template <class F>
double slope(Tensor t, const std::vector<float>& x, const std::vector<float>& d, double s, F&& f) {
    auto central = [&](double h) {
        move(t, x, d, h);
        const double up = f();
        move(t, x, d, -h);
        const double down = f();
        return (up - down) / (2 * h);
    };
    const double wide = central(2 * s), narrow = central(s);
    device().upload(t, x.data());
    return (4 * narrow - wide) / 3;
}

TEST_CASE("Every parameter's gradient is the slope of the loss, for each feature of the model") {
    struct Variant {
        int64_t head_dim;
        bool qk_norm, bias, tied;
    };
    for (const Variant v : {Variant{8, false, false, true},
                            {16, true, true, false},
                            {8, true, false, false},
                            {16, false, true, true}}) {
        ModelSpec spec = tiny_spec();
        spec.head_dim = v.head_dim;
        spec.qk_norm = v.qk_norm;
        spec.attention_bias = spec.o_bias = v.bias;
        spec.tied = v.tied;
        Tiny tiny(spec, rules_of(PrecisionMode::fp32));
        uint32_t stream = 0;
        tiny.model.params().visit([&](Param& p) {  // nothing stays at a symmetric point
            auto x = download(p.master);
            const auto noise = normal(x.size(), 100 + stream++, 0.15f);
            for (size_t i = 0; i < x.size(); ++i) x[i] += noise[i];
            device().upload(p.master, x.data());
        });
        tiny.model.prepare();
        PackedBatch batch;
        batch.add(tokens(13, 1));
        batch.add(tokens(21, 2));
        const auto weight = normal(static_cast<size_t>(batch.rows() * spec.hidden), 3);
        tiny.gradients(batch, weight);
        auto loss = [&] {
            tiny.model.prepare();
            return dot(tiny.hidden(batch), weight);
        };
        tiny.model.params().visit([&](Param& p) {
            if (p.name == "lm_head.weight") return;  // above the hidden states
            const auto x = download(p.master), g = download(p.grad);
            const auto d = normal(x.size(), 200 + stream++);
            const double expected = slope(p.master, x, d, 2e-3, loss);
            INFO(p.name << " head_dim " << v.head_dim << " qk_norm " << v.qk_norm << " bias " << v.bias);
            CHECK(dot(g, d) == Approx(expected).epsilon(2e-3).margin(2e-3 * norm(g)));
        });
    }
}

// One module of a tiny network with its own input x [N, C] and output y [N, C].
struct Bench {
    ModelSpec spec = tiny_spec();
    Network net;
    Memory memory{size_t{16} << 20};
    PackedBatch batch;
    int64_t n;

    explicit Bench(bool qk_norm)
        : spec(make(qk_norm)), net(device(), spec, options_of(spec, rules_of(PrecisionMode::fp32))) {
        batch.add(tokens(9, 1));
        batch.add(tokens(18, 2));
        n = batch.rows();
    }
    static ModelSpec make(bool qk_norm) {
        ModelSpec s = tiny_spec();
        s.qk_norm = qk_norm;
        return s;
    }
    // After the module under test registered its parameters.
    void reserve() {
        uint32_t stream = 50;
        net.params.visit([&](Param& p) {
            const bool vector = p.kind == Param::Kind::vector;
            auto x = normal(static_cast<size_t>(p.size()), stream++, vector ? 0.3f : 0.2f);
            if (vector)
                for (float& v : x) v += 1;
            p.master = vector ? upload(memory.arena, DType::f32, {p.cols}, x)
                              : upload(memory.arena, DType::f32, {p.rows, p.cols}, x);
            p.grad = vector ? memory.arena.tensor(DType::f32, {p.cols})
                            : memory.arena.tensor(DType::f32, {p.rows, p.cols});
            device().zero(p.grad);
            if (vector) return;
            p.weight = device().reserve_weight(p.rows, p.cols, p.weight.spec, memory.arena);
        });
        net.kv.reserve(memory.arena);
        std::vector<float> table;
        for (int64_t pos = 0; pos < 32; ++pos)
            for (int64_t i = 0; i < spec.head_dim; ++i) {
                const double angle =
                    static_cast<double>(pos) / std::pow(50.0, 2.0 * (i % (spec.head_dim / 2)) / 8);
                table.push_back(
                    static_cast<float>(i < spec.head_dim / 2 ? std::cos(angle) : std::sin(angle)));
            }
        net.rope_table = upload(memory.arena, DType::f32, {32, spec.head_dim}, table);
        prepare();
    }
    void prepare() {
        net.params.visit([&](Param& p) {
            if (p.kind != Param::Kind::vector) device().prepare(p.weight, p.master);
        });
    }
    Pass pass() { return {device(), memory.arena, batch.ids, batch.positions, batch.sequences()}; }

    // forward(x) -> y; backward(dx, dy) after it. Checks dx and every parameter.
    template <class Forward, class Backward>
    void check_slopes(Forward&& forward, Backward&& backward) {
        Tensor x = upload(memory.arena, DType::f32, {n, spec.hidden},
                          normal(static_cast<size_t>(n * spec.hidden), 5));
        const auto weight = normal(static_cast<size_t>(n * spec.hidden), 6);
        Tensor dy = upload(memory.arena, DType::f32, {n, spec.hidden}, weight);
        Tensor dx = memory.arena.tensor(DType::f32, {n, spec.hidden});
        auto loss = [&] {
            prepare();
            return dot(download(forward(x)), weight);
        };
        loss();
        backward(dx, dy, x);
        const auto x0 = download(x), d = normal(x0.size(), 7);
        CHECK(dot(download(dx), d) ==
              Approx(slope(x, x0, d, 2e-3, loss)).epsilon(2e-3).margin(2e-3 * norm(download(dx))));
        uint32_t stream = 300;
        net.params.visit([&](Param& p) {
            INFO(p.name);
            const auto p0 = download(p.master), g = download(p.grad), pd = normal(p0.size(), stream++);
            CHECK(dot(g, pd) ==
                  Approx(slope(p.master, p0, pd, 2e-3, loss)).epsilon(2e-3).margin(2e-3 * norm(g)));
        });
    }
};

TEST_CASE("norm: dx and the gain's gradient are slopes") {
    Bench b(false);
    Norm norm(b.net, "norm", b.spec.hidden, 0);
    b.reserve();
    Tensor y = b.memory.arena.tensor(DType::f32, {b.n, b.spec.hidden});
    Tensor rstd = b.memory.arena.tensor(DType::f32, {b.n});
    b.check_slopes(
        [&](Tensor x) {
            norm.forward(y, {}, rstd, x, {});
            return y;
        },
        [&](Tensor dx, Tensor dy, Tensor x) { norm.backward(dx, dy, x, rstd, true); });
}

TEST_CASE("mlp: dx and all gradients are slopes") {
    Bench b(false);
    Mlp mlp(b.net, "model.layers.0.mlp", 0);
    b.reserve();
    Pass pass = b.pass();
    BlockSaved s;
    s.reserve_inner(b.memory.arena, b.spec, b.n, DType::f32);
    Tensor y = b.memory.arena.tensor(DType::f32, {b.n, b.spec.hidden});
    b.check_slopes(
        [&](Tensor x) {
            mlp.forward(pass, y, s.mlp, x);
            return y;
        },
        [&](Tensor dx, Tensor dy, Tensor x) { mlp.backward(pass, dx, dy, s.mlp, x); });
}

TEST_CASE("attention: dx and all gradients are slopes, with and without QK-norm") {
    for (bool qk_norm : {false, true}) {
        Bench b(qk_norm);
        Gqa gqa(b.net, "model.layers.0.self_attn", 0);
        b.reserve();
        Pass pass = b.pass();
        BlockSaved s;
        s.reserve_inner(b.memory.arena, b.spec, b.n, DType::f32);
        Tensor y = b.memory.arena.tensor(DType::f32, {b.n, b.spec.hidden});
        b.check_slopes(
            [&](Tensor x) {
                gqa.forward(pass, y, s.attention, x);
                return y;
            },
            [&](Tensor dx, Tensor dy, Tensor x) { gqa.backward(pass, dx, dy, s.attention, x); });
    }
}

TEST_CASE("block: the residual stream's gradient and all gradients are slopes") {
    Bench b(true);
    Block block(b.net, 0);
    b.reserve();
    Pass pass = b.pass();
    BlockSaved s;
    s.reserve_inner(b.memory.arena, b.spec, b.n, DType::f32);
    Tensor delta = b.memory.arena.tensor(DType::f32, {b.n, b.spec.hidden});
    b.check_slopes(
        [&](Tensor x) {
            s.residual1 = x;
            block.forward(pass, s, x, {}, delta);
            device().add(delta, s.residual2);
            return delta;
        },
        [&](Tensor dx, Tensor dy, Tensor) {
            device().copy(dx, dy);
            block.backward(pass, dx, s);
        });
}

}  // namespace
}  // namespace fp8rl
