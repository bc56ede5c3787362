// Attention's gradient: finite differences in double for f32, the f32 path for bf16 and FP8 (straight
// through), the same bytes on every path and whatever else is in the batch.
#include "attention_support.h"

using namespace fp8rl;
using namespace fp8rl::test;

namespace {

struct Gradients {
    Tensor dq, dk, dv;
};

Gradients gradients(Attention& a, std::span<const Sequence> batch, const KvLayer& kv, const Tensor& dout) {
    Tensors& t = a.tensors();
    Gradients g{t.zeros(a.q.dtype, {a.q.rows(), a.q.cols()}), t.zeros(a.q.dtype, {a.k.rows(), a.k.cols()}),
                t.zeros(a.q.dtype, {a.k.rows(), a.k.cols()})};
    a.run(batch, kv);
    cpu::attention_backward(g.dq, g.dk, g.dv, dout, a.last_out, a.last_lse, a.q, kv, batch, a.spec);
    return g;
}

// sum over rows of dout . softmax(q k^T scale) v for one sequence of n tokens.
double loss(const std::vector<double>& q, const std::vector<double>& k, const std::vector<double>& v,
            const std::vector<double>& dout, int64_t n, int heads, int kv_heads, int d, double scale) {
    double total = 0;
    std::vector<double> p;
    for (int64_t t = 0; t < n; ++t)
        for (int h = 0; h < heads; ++h) {
            const int kvh = h / (heads / kv_heads);
            const double* row = &q[static_cast<size_t>(t * heads * d + h * d)];
            const double* grad = &dout[static_cast<size_t>(t * heads * d + h * d)];
            double sum = 0, weighted = 0;
            for (int64_t j = 0; j <= t; ++j) {
                const size_t at = static_cast<size_t>(j * kv_heads * d + kvh * d);
                double score = 0, along = 0;
                for (int i = 0; i < d; ++i)
                    score += row[i] * k[at + static_cast<size_t>(i)],
                        along += grad[i] * v[at + static_cast<size_t>(i)];
                const double e = std::exp(score * scale);
                sum += e, weighted += e * along;
            }
            total += weighted / sum;
        }
    return total;
}

double distance(const Tensor& got, const Tensor& want) {
    double difference = 0, size = 0;
    for (int64_t i = 0; i < got.size(); ++i) {
        difference += std::pow(at(got, i) - at(want, i), 2);
        size += std::pow(at(want, i), 2);
    }
    return std::sqrt(difference / size);
}

}  // namespace

TEST_CASE("attention_backward agrees with central differences") {
    on_scalar([&] {
        const int64_t n = 19;
        Attention a({DType::f32, DType::f32, 4, 2, 6, false, {0}, {19}}, 3);
        const Tensor dout = a.tensors().normal(DType::f32, {n, 24});
        const Gradients g = gradients(a, a.whole(), a.kv, dout);
        std::vector<double> q = values(a.q), k = values(a.k), v = values(a.v);
        const std::vector<double> d = values(dout);
        const auto difference = [&](std::vector<double>& x) {
            std::vector<double> out;
            for (double& e : x) {
                const double keep = e, h = 1e-5;
                e = keep + h;
                const double up = loss(q, k, v, d, n, 4, 2, 6, a.spec.scale);
                e = keep - h;
                const double down = loss(q, k, v, d, n, 4, 2, 6, a.spec.scale);
                e = keep;
                out.push_back((up - down) / (2 * h));
            }
            return out;
        };
        require_near(g.dq, difference(q), 3e-6);
        require_near(g.dk, difference(k), 3e-6);
        require_near(g.dv, difference(v), 3e-6);
    });
}

TEST_CASE("bf16 and FP8 gradients are those of f32 at the values the forward read") {
    for (AttentionCase c : {AttentionCase{DType::bf16, DType::bf16, 9, 3, 64, false, {0, 0}, {152, 12}},
                            AttentionCase{DType::bf16, DType::e4m3, 6, 2, 32, false, {0, 0}, {70, 33}},
                            AttentionCase{DType::bf16, DType::e4m3, 4, 2, 80, true, {0, 0}, {20, 65}}}) {
        Attention a(c, 4);
        const Tensor dout = a.tensors().normal(DType::bf16, {a.q.rows(), a.q.cols()});
        const Gradients g = gradients(a, a.whole(), a.kv, dout);
        AttentionCase exact = c;
        exact.act = exact.format = DType::f32, exact.fp8 = false;
        Attention b(exact, 4);
        for (int64_t r = 0; r < a.q.rows(); ++r) {
            for (int64_t i = 0; i < a.q.cols(); ++i)
                Tensors::put(b.q, r * a.q.cols() + i, static_cast<float>(a.query(r, i)));
            for (int64_t i = 0; i < a.k.cols(); ++i) {
                Tensors::put(b.k, r * a.k.cols() + i, static_cast<float>(a.cached(a.k, a.k_scale, r, i)));
                Tensors::put(b.v, r * a.k.cols() + i, static_cast<float>(a.cached(a.v, a.v_scale, r, i)));
            }
        }
        b.fill(b.kv);
        const Tensor exact_dout = b.tensors().zeros(DType::f32, {a.q.rows(), a.q.cols()});
        for (int64_t i = 0; i < dout.size(); ++i)
            Tensors::put(exact_dout, i, static_cast<float>(at(dout, i)));
        const Gradients want = gradients(b, b.whole(), b.kv, exact_dout);
        // FP8 P changes `out` itself, which delta uses.
        const double tolerance = c.fp8 ? 0.06 : 0.01;
        INFO("d " << c.d << ", " << name_of(c.format));
        CHECK(distance(g.dq, want.dq) < tolerance);
        CHECK(distance(g.dk, want.dk) < tolerance);
        CHECK(distance(g.dv, want.dv) < tolerance);
    }
}

TEST_CASE("attention_backward gives the same bytes on every path and number of threads") {
    for (AttentionCase c : {AttentionCase{DType::f32, DType::f32, 4, 2, 16, false, {0, 0}, {70, 5}},
                            AttentionCase{DType::bf16, DType::bf16, 9, 3, 64, false, {0, 0, 0}, {69, 1, 12}},
                            AttentionCase{DType::bf16, DType::bf16, 2, 2, 10, false, {0}, {131}},
                            AttentionCase{DType::bf16, DType::e4m3, 4, 2, 80, true, {0, 0}, {20, 33}}}) {
        Attention a(c, 6);
        const Tensor dout = a.tensors().normal(c.act, {a.q.rows(), a.q.cols()});
        INFO("d " << c.d << ", " << name_of(c.format));
        same_everywhere([&] {
            const Gradients g = gradients(a, a.whole(), a.kv, dout);
            Bytes b;
            for (const Tensor& t : {g.dq, g.dk, g.dv}) append(b, t);
            return b;
        });
    }
}

TEST_CASE("a sequence's gradients do not depend on the rest of the batch") {
    AttentionCase c{DType::bf16, DType::bf16, 6, 2, 32, false, {0, 0, 0}, {40, 90, 7}};
    Attention a(c, 8);
    const Tensor dout = a.tensors().normal(c.act, {a.q.rows(), a.q.cols()});
    const std::vector<Sequence> all = a.whole();
    const Gradients together = gradients(a, all, a.kv, dout);
    for (const Sequence& s : all) {
        const Gradients alone = gradients(a, {&s, 1}, a.kv, dout);
        for (int64_t r = s.row; r < s.row + s.rows; ++r) {
            REQUIRE(row_of(alone.dq, alone.dk, r) == row_of(together.dq, together.dk, r));
            REQUIRE(row_of(alone.dv, alone.dk, r) == row_of(together.dv, together.dk, r));
        }
    }
}

TEST_CASE("attention_backward refuses sequences with a past") {
    Attention a({DType::bf16, DType::bf16, 2, 1, 16, false, {3}, {4}}, 12);
    const Tensor dout = a.tensors().normal(DType::bf16, {7, 32});
    REQUIRE_THROWS_AS(gradients(a, a.tails(), a.kv, dout), Error);
}
