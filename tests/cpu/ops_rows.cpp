// Norm, elementwise ops, embedding, rotation and optimizer: the scalar path against double arithmetic and
// finite differences, then every other path against the scalar one, byte for byte.
#include "cpu/adamw.h"
#include "cpu/elementwise.h"
#include "cpu/embed.h"
#include "cpu/norm.h"
#include "cpu/rope.h"
#include "ops_support.h"

using namespace fp8rl;
using namespace fp8rl::test;

namespace {

const DType act_types[] = {DType::f32, DType::bf16};
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

struct Norm {
    int64_t rows, n;
    DType type;
    Tensors t;
    Tensor residual, delta, gain, y, r, rstd;
    Norm(int64_t rows_, int64_t n_, DType type_)
        : rows(rows_), n(n_), type(type_), t(static_cast<uint64_t>(n_)) {
        residual = t.normal(type, {rows, n});
        delta = t.normal(type, {rows, n});
        gain = t.normal(DType::f32, {n});
        y = t.zeros(type, {rows, n});
        r = t.zeros(type, {rows, n});
        rstd = t.zeros(DType::f32, {rows});
    }
};

}  // namespace

TEST_CASE("add_rmsnorm is its formula, with the sum rounded before it is normalized") {
    for (DType type : act_types)
        on_scalar([&] {
            Norm a(5, 203, type);
            cpu::add_rmsnorm(a.y, a.r, a.rstd, a.residual, a.delta, a.gain, 1e-5f);
            std::vector<double> y, r, rstd;
            for (int64_t i = 0; i < a.rows; ++i) {
                double squares = 0;
                for (int64_t c = 0; c < a.n; ++c) {
                    const float sum = static_cast<float>(at(a.residual, i * a.n + c)) +
                                      static_cast<float>(at(a.delta, i * a.n + c));
                    r.push_back(type == DType::bf16 ? round_bf16(sum) : sum);
                    squares += r.back() * r.back();
                }
                rstd.push_back(1 / std::sqrt(squares / static_cast<double>(a.n) + 1e-5));
                for (int64_t c = 0; c < a.n; ++c)
                    y.push_back(r[static_cast<size_t>(i * a.n + c)] * rstd.back() * at(a.gain, c));
            }
            for (size_t i = 0; i < r.size(); ++i) REQUIRE(at(a.r, static_cast<int64_t>(i)) == r[i]);
            require_near(a.rstd, rstd);
            require_near(a.y, y);
        });
}

TEST_CASE("add_rmsnorm without delta leaves the residual as it is, and may write over it with one") {
    Norm a(3, 576, DType::bf16);
    const Tensor before = a.t.copy(a.residual);
    cpu::add_rmsnorm(a.y, {}, a.rstd, a.residual, {}, a.gain, 1e-5f);
    REQUIRE(std::memcmp(before.data, a.residual.data, before.bytes()) == 0);
    cpu::add_rmsnorm(a.y, a.r, a.rstd, a.residual, a.delta, a.gain, 1e-5f);
    const Tensor y = a.t.copy(a.y);
    cpu::add_rmsnorm(a.y, a.residual, a.rstd, a.residual, a.delta, a.gain, 1e-5f);
    REQUIRE(std::memcmp(y.data, a.y.data, y.bytes()) == 0);
    REQUIRE(std::memcmp(a.r.data, a.residual.data, a.r.bytes()) == 0);
}

TEST_CASE("norm gives the same bytes on every path") {
    for (DType type : act_types)
        for (int64_t n : {1, 15, 64, 100, 257, 576, 1536}) {
            Norm a(67, n, type);
            const Tensor dy = a.t.normal(type, {a.rows, n}), dx0 = a.t.normal(type, {a.rows, n});
            same_everywhere([&] {
                const Tensor dx = a.t.copy(dx0), dgain = a.t.copy(a.gain);
                cpu::add_rmsnorm(a.y, a.r, a.rstd, a.residual, a.delta, a.gain, 1e-5f);
                cpu::rmsnorm_backward(dx, dgain, dy, a.r, a.rstd, a.gain, false);
                Bytes b;
                for (const Tensor& t : {a.y, a.r, a.rstd, dx, dgain}) append(b, t);
                cpu::rmsnorm_backward(dx, dgain, dy, a.r, a.rstd, a.gain, true);
                append(b, dx);
                return b;
            });
        }
}

TEST_CASE("rmsnorm_backward agrees with central differences and adds to what was there") {
    on_scalar([&] {
        Norm a(3, 40, DType::f32);
        const Tensor dy = a.t.normal(DType::f32, {3, 40});
        const auto loss = [&](const std::vector<double>& x, const std::vector<double>& g) {
            double sum = 0;
            for (size_t i = 0; i < 3; ++i) {
                double squares = 0;
                for (size_t c = 0; c < 40; ++c) squares += x[i * 40 + c] * x[i * 40 + c];
                for (size_t c = 0; c < 40; ++c)
                    sum += at(dy, static_cast<int64_t>(i * 40 + c)) * x[i * 40 + c] /
                           std::sqrt(squares / 40 + 1e-5) * g[c];
            }
            return sum;
        };
        cpu::add_rmsnorm(a.y, {}, a.rstd, a.residual, {}, a.gain, 1e-5f);
        const Tensor dx = a.t.normal(DType::f32, {3, 40}), dgain = a.t.normal(DType::f32, {40});
        std::vector<double> want_dx = values(dx), want_dgain = values(dgain), x = values(a.residual),
                            g = values(a.gain);
        const auto difference = [&](std::vector<double>& v, size_t i) {
            const double keep = v[i], h = 1e-5;
            v[i] = keep + h;
            const double up = loss(x, g);
            v[i] = keep - h;
            const double down = loss(x, g);
            v[i] = keep;
            return (up - down) / (2 * h);
        };
        for (size_t i = 0; i < x.size(); ++i) want_dx[i] += difference(x, i);
        for (size_t c = 0; c < g.size(); ++c) want_dgain[c] += difference(g, c);
        cpu::rmsnorm_backward(dx, dgain, dy, a.residual, a.rstd, a.gain, false);
        require_near(dx, want_dx, 1e-5);
        require_near(dgain, want_dgain, 1e-5);
    });
}

TEST_CASE("swiglu and its gradient are their formulas") {
    for (DType type : act_types)
        on_scalar([&] {
            Tensors t;
            const Tensor gate = t.normal(type, {4, 37}, 3), up = t.normal(type, {4, 37}),
                         dy = t.normal(type, {4, 37});
            const Tensor y = t.zeros(type, {4, 37}), dgate = t.zeros(type, {4, 37}),
                         dup = t.zeros(type, {4, 37});
            cpu::swiglu(y, gate, up);
            cpu::swiglu_backward(dgate, dup, dy, gate, up);
            std::vector<double> want, want_dgate, want_dup;
            for (int64_t i = 0; i < gate.size(); ++i) {
                const double g = at(gate, i), s = sigmoid(g), u = at(up, i), d = at(dy, i);
                want.push_back(g * s * u);
                want_dgate.push_back(d * u * s * (1 + g * (1 - s)));
                want_dup.push_back(d * g * s);
            }
            require_near(y, want);
            require_near(dgate, want_dgate);
            require_near(dup, want_dup);
        });
}

TEST_CASE("elementwise ops give the same bytes on every path") {
    for (DType type : act_types)
        for (int64_t n : {1, 33, 576, 1537}) {
            Tensors t(static_cast<uint64_t>(n));
            const int64_t rows = 71;
            const Tensor gate = t.normal(type, {rows, n}, 20), up = t.normal(type, {rows, n}),
                         bias = t.normal(DType::f32, {n});
            const Tensor dy = t.normal(type, {rows, n});
            same_everywhere([&] {
                const Tensor y = t.zeros(type, {rows, n}), dgate = t.zeros(type, {rows, n}),
                             dup = t.zeros(type, {rows, n});
                const Tensor dbias = t.copy(bias);
                Bytes b;
                cpu::swiglu(y, gate, up);
                append(b, y);
                cpu::add(y, up);
                append(b, y);
                cpu::add_bias(y, bias);
                append(b, y);
                cpu::swiglu_backward(dgate, dup, dy, gate, up);
                append(b, dgate);
                append(b, dup);
                cpu::bias_backward(dbias, dy);
                append(b, dbias);
                return b;
            });
        }
}

TEST_CASE("bias_backward sums columns") {
    Tensors t;
    const Tensor dy = t.normal(DType::bf16, {70, 5}), dbias = t.normal(DType::f32, {5});
    std::vector<double> want = values(dbias);
    for (int64_t i = 0; i < 70; ++i)
        for (int64_t c = 0; c < 5; ++c) want[static_cast<size_t>(c)] += at(dy, i * 5 + c);
    cpu::bias_backward(dbias, dy);
    require_near(dbias, want);
}

TEST_CASE("embedding picks rows; its gradient adds rows of repeated ids in row order") {
    for (DType type : act_types) {
        Tensors t;
        Weight table;
        table.rows = t.normal(type, {30, 50});
        std::vector<int32_t> ids = {3, 29, 3, 0, 7, 3, 16, 0, 3};
        const Tensor y = t.zeros(type, {9, 50}), dy = t.normal(type, {9, 50}),
                     start = t.normal(DType::f32, {30, 50});
        cpu::embed(y, table, ids);
        std::vector<float> want(static_cast<size_t>(start.size()));
        for (int64_t i = 0; i < start.size(); ++i) want[static_cast<size_t>(i)] = start.as<float>()[i];
        for (int64_t i = 0; i < 9; ++i)
            for (int64_t c = 0; c < 50; ++c) {
                REQUIRE(at(y, i * 50 + c) == at(table.rows, ids[static_cast<size_t>(i)] * 50 + c));
                want[static_cast<size_t>(ids[static_cast<size_t>(i)] * 50 + c)] +=
                    static_cast<float>(at(dy, i * 50 + c));
            }
        same_everywhere([&] {
            const Tensor dtable = t.copy(start);
            cpu::embed_backward(dtable, dy, ids);
            REQUIRE(std::memcmp(dtable.data, want.data(), dtable.bytes()) == 0);
            Bytes b;
            append(b, dtable);
            return b;
        });
        ids[2] = 30;
        REQUIRE_THROWS_AS(cpu::embed(y, table, ids), Error);
    }
}

TEST_CASE("rope turns pairs half a head apart, and its inverse turns back") {
    for (DType type : act_types)
        for (int d : {2, 16, 64, 80}) {
            Tensors t(static_cast<uint64_t>(d));
            const int64_t heads = 3, rows = 5;
            const Tensor table = t.zeros(DType::f32, {10, d});
            for (int64_t p = 0; p < 10; ++p)
                for (int64_t i = 0; i < d / 2; ++i) {
                    const double angle =
                        static_cast<double>(p) * std::pow(1e4, -2.0 * static_cast<double>(i) / d);
                    table.as<float>()[p * d + i] = static_cast<float>(std::cos(angle));
                    table.as<float>()[p * d + d / 2 + i] = static_cast<float>(std::sin(angle));
                }
            const std::vector<int32_t> positions = {0, 9, 4, 4, 1};
            const Tensor x = t.normal(type, {rows, heads * d});
            std::vector<double> want(static_cast<size_t>(x.size())), back(want);
            for (int64_t i = 0; i < rows * heads; ++i)
                for (int64_t k = 0; k < d / 2; ++k) {
                    const int64_t p = positions[static_cast<size_t>(i / heads)], lo = i * d + k,
                                  hi = lo + d / 2;
                    const double c = at(table, p * d + k), s = at(table, p * d + d / 2 + k);
                    want[static_cast<size_t>(lo)] = at(x, lo) * c - at(x, hi) * s;
                    want[static_cast<size_t>(hi)] = at(x, hi) * c + at(x, lo) * s;
                    back[static_cast<size_t>(lo)] = at(x, lo) * c + at(x, hi) * s;
                    back[static_cast<size_t>(hi)] = at(x, hi) * c - at(x, lo) * s;
                }
            on_scalar([&] {
                const Tensor y = t.copy(x), z = t.copy(x);
                cpu::rope(y, positions, table, d, false);
                cpu::rope(z, positions, table, d, true);
                // A difference of products: the rounding is relative to the result, the products' to
                // themselves.
                require_near(y, want, 1e-6);
                require_near(z, back, 1e-6);
            });
            same_everywhere([&] {
                const Tensor y = t.copy(x);
                cpu::rope(y, positions, table, d, false);
                Bytes b;
                append(b, y);
                cpu::rope(y, positions, table, d, true);
                append(b, y);
                return b;
            });
        }
}

TEST_CASE("adamw follows the paper's update with decoupled weight decay") {
    for (DType type : act_types) {
        Tensors t;
        const int64_t n = 1003;
        const Tensor master = t.normal(DType::f32, {n}), grad = t.normal(DType::f32, {n}),
                     m = t.normal(type, {n}, 0.1f);
        const Tensor v = t.zeros(type, {n});
        for (int64_t i = 0; i < n; ++i) Tensors::put(v, i, std::fabs(t.random().normal()) * 0.01f);
        AdamwParams p;
        p.lr = 1e-2f, p.weight_decay = 0.1f, p.correction1 = 0.271f, p.correction2 = 0.1426f,
        p.grad_scale = 0.5f;
        std::vector<double> want_p, want_m, want_v;
        for (int64_t i = 0; i < n; ++i) {
            const double g = at(grad, i) * 0.5, first = 0.9 * at(m, i) + 0.1 * g,
                         second = 0.95 * at(v, i) + 0.05 * g * g;
            want_m.push_back(first);
            want_v.push_back(second);
            want_p.push_back(at(master, i) * (1 - 1e-3) -
                             1e-2 * (first / 0.271) / (std::sqrt(second / 0.1426) + 1e-8));
        }
        same_everywhere([&] {
            const Tensor p1 = t.copy(master), m1 = t.copy(m), v1 = t.copy(v);
            cpu::adamw(p1, grad, m1, v1, p);
            require_near(p1, want_p);
            require_near(m1, want_m);
            require_near(v1, want_v);
            Bytes b;
            for (const Tensor& x : {p1, m1, v1}) append(b, x);
            return b;
        });
    }
}

TEST_CASE("sum_squares is the FP64 sum of its blocks, and not finite when an element is not") {
    for (int64_t n : {1, 255, 4096, 4097, 30000}) {
        Tensors t(static_cast<uint64_t>(n));
        const Tensor x = t.normal(DType::f32, {n});
        double want = 0;
        for (double v : values(x)) want += v * v;
        same_everywhere([&] {
            const double got = cpu::sum_squares(x);
            REQUIRE(std::fabs(got - want) <= 1e-6 * want);
            Bytes b;
            append(b, &got, sizeof got);
            return b;
        });
        x.as<float>()[n / 2] = std::nanf("");
        REQUIRE(std::isnan(cpu::sum_squares(x)));
        x.as<float>()[n / 2] = -INFINITY;
        REQUIRE(std::isinf(cpu::sum_squares(x)));
    }
}

TEST_CASE("ops refuse shapes that do not fit, as defects") {
    Tensors t;
    const Tensor a = t.zeros(DType::bf16, {2, 8}), b = t.zeros(DType::bf16, {2, 6}),
                 f = t.zeros(DType::f32, {6});
    REQUIRE_THROWS_AS(cpu::add(a, b), Error);
    REQUIRE_THROWS_AS(cpu::add_bias(a, f), Error);
    REQUIRE_THROWS_AS(cpu::swiglu(a, a, b), Error);
    REQUIRE_THROWS_AS(cpu::add_rmsnorm(a, {}, f, a, {}, f, 1e-5f), Error);
}
