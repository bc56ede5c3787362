// The quantized GEMMs of a linear layer against explicit products of dequantized operands, which the scalar
// reference of lib/quant makes; and what FP8 gradients are worth beside BF16 ones.
#include "nn/linear.h"
#include "quant/quantize.h"
#include "tiny.h"

namespace fp8rl {
namespace {

using namespace test;

constexpr int64_t tokens_n = 150, in = 160, out_a = 200, out_b = 72;  // partial blocks everywhere

std::vector<float> rounded(std::vector<float> x) {
    for (float& v : x) v = round_bf16(v);
    return x;
}

// c[m, n] = sum_k a[m, k] b[n, k], and the sum of magnitudes beside it.
struct Product {
    std::vector<double> value, magnitude;
    Product(const std::vector<float>& a, const std::vector<float>& b, int64_t m, int64_t n, int64_t k)
        : value(static_cast<size_t>(m * n)), magnitude(value.size()) {
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j)
                for (int64_t l = 0; l < k; ++l) {
                    const double p = static_cast<double>(a[i * k + l]) * b[j * k + l];
                    value[i * n + j] += p;
                    magnitude[i * n + j] += std::abs(p);
                }
    }
    void add(const Product& o) {
        for (size_t i = 0; i < value.size(); ++i) value[i] += o.value[i], magnitude[i] += o.magnitude[i];
    }
    // `rounding`: of the destination, relative.
    void compare(const std::vector<float>& c, double rounding) const {
        REQUIRE(c.size() == value.size());
        double worst = 0;
        for (size_t i = 0; i < c.size(); ++i)
            worst = std::max(worst, (std::abs(c[i] - value[i]) - rounding * std::abs(value[i])) /
                                        std::max(magnitude[i], 1e-30));
        CHECK(worst <= 2e-5);
    }
};

// What the reference makes of x [rows, k]; delayed and fixed scales take `multiplier`.
std::vector<float> codes(const std::vector<float>& x, int64_t rows, int64_t k, const QuantSpec& spec,
                         const float* multiplier = nullptr) {
    if (!spec.quantized()) return x;
    const float* m = spec.scaling == Scaling::current ? nullptr : multiplier;
    return dequantize_reference(quantize_reference(x, rows, k, spec, m));
}
std::vector<float> transposed_codes_of(const std::vector<float>& x, int64_t rows, int64_t k,
                                       const QuantSpec& spec, const float* multiplier = nullptr) {
    if (!spec.quantized()) {
        std::vector<float> t(x.size());
        for (int64_t r = 0; r < rows; ++r)
            for (int64_t c = 0; c < k; ++c) t[c * rows + r] = x[r * k + c];
        return t;
    }
    const float* m = spec.scaling == Scaling::current ? nullptr : multiplier;
    return dequantize_reference(quantize_transposed_reference(x, rows, k, spec, m));
}

// W^T as dgrad reads it: square and whole-tensor codes transposed, 1D blocks quantized along the other axis.
std::vector<float> weight_backward(const std::vector<float>& w, int64_t o, const LinearPrecision& p) {
    if (!p.backward_quantized()) return transposed_codes_of(w, o, in, QuantSpec::bf16());
    if (p.weight.block_rows == 1) return transposed_codes_of(w, o, in, p.weight);
    return dequantize_reference(transposed_codes(quantize_reference(w, o, in, p.weight)));
}

struct Case {
    std::string name;
    PrecisionRules rules;
};

std::vector<Case> cases() {
    std::vector<Case> out = {{"bf16", rules_of(PrecisionMode::bf16)},
                             {"blockwise", rules_of(PrecisionMode::blockwise)},
                             {"mxfp8", rules_of(PrecisionMode::mxfp8)},
                             {"per_tensor", rules_of(PrecisionMode::per_tensor)}};
    for (auto backward : {BackwardFormat::bf16, BackwardFormat::e5m2})
        for (auto mode : {PrecisionMode::blockwise, PrecisionMode::mxfp8, PrecisionMode::per_tensor}) {
            Case c{backward == BackwardFormat::bf16 ? "backward bf16" : "backward e5m2", rules_of(mode)};
            c.rules.backward = backward;
            out.push_back(c);
        }
    out.push_back({"static", rules_of(PrecisionMode::per_tensor)});
    out.back().rules.per_tensor.scaling = Scaling::fixed;
    out.back().rules.per_tensor.static_scale = 0.25;
    return out;
}

TEST_CASE("fprop, dgrad and wgrad are products of the operands that the quantization rules define") {
    const auto x = rounded(normal(tokens_n * in, 1));
    const auto wa = rounded(normal(out_a * in, 2, 0.1f)), wb = rounded(normal(out_b * in, 3, 0.1f));
    const auto da = rounded(normal(tokens_n * out_a, 4, 1e-3f)),
               db = rounded(normal(tokens_n * out_b, 5, 1e-3f));
    for (const Case& c : cases()) {
        INFO(c.name);
        ModelSpec spec = tiny_spec();
        ModelOptions o = options_of(spec, c.rules);
        Network net(device(), spec, o);
        // Any two modules of the table will do as names.
        Linear linear(
            net, 0, in,
            {{"model.layers.0.mlp.gate_proj", out_a, false}, {"model.layers.0.mlp.up_proj", out_b, false}});
        Memory memory(size_t{16} << 20);
        Arena& a = memory.arena;
        auto fill = [&](const char* name, const std::vector<float>& w) {
            Param& p = *net.params.find(name);
            p.master = upload(a, DType::f32, {p.rows, p.cols}, w);
            p.grad = a.tensor(DType::f32, {p.rows, p.cols});
            device().zero(p.grad);
            p.weight = device().reserve_weight(p.rows, p.cols, p.weight.spec, a);
            device().prepare(p.weight, p.master);
        };
        fill("model.layers.0.mlp.gate_proj.weight", wa);
        fill("model.layers.0.mlp.up_proj.weight", wb);
        net.scales.reserve(a);
        net.counters.reserve(a);

        PackedBatch batch;
        batch.add(tokens(tokens_n, 1));
        Tensor tx = upload(a, DType::bf16, {tokens_n, in}, x);
        Tensor ya = a.tensor(DType::bf16, {tokens_n, out_a}), yb = a.tensor(DType::bf16, {tokens_n, out_b});
        Tensor tda = upload(a, DType::bf16, {tokens_n, out_a}, da),
               tdb = upload(a, DType::bf16, {tokens_n, out_b}, db);
        Tensor dx = a.tensor(DType::f32, {tokens_n, in});
        Pass pass{device(), a, batch.ids, batch.positions, batch.sequences()};
        pass.observe = pass.calibrate = true;
        linear.forward(pass, {ya, yb}, tx);
        net.scales.begin_step();
        pass.observe = pass.calibrate = false;
        (void)net.counters.take();
        linear.forward(pass, {ya, yb}, tx);
        linear.backward(pass, dx, {tda, tdb}, tx);
        linear.backward(pass, dx, {tda, tdb}, tx);  // weight gradients accumulate, dx is overwritten

        const LinearPrecision p = linear_precision(c.rules);
        float multiplier = 1.0f / 0.25f;
        if (p.activation.scaling == Scaling::delayed) {
            DelayedScale s(p.activation.format, c.rules.per_tensor);
            float amax = 0;
            for (float v : x) amax = std::max(amax, std::abs(v));
            s.observe(amax);
            s.begin_step();
            multiplier = s.multiplier();
        }
        const auto xq = codes(x, tokens_n, in, p.activation, &multiplier);
        const double to_bf16_error = 1.0 / 256;
        Product(xq, codes(wa, out_a, in, p.weight), tokens_n, out_a, in).compare(download(ya), to_bf16_error);
        Product(xq, codes(wb, out_b, in, p.weight), tokens_n, out_b, in).compare(download(yb), to_bf16_error);
        Product expected(codes(da, tokens_n, out_a, p.gradient), weight_backward(wa, out_a, p), tokens_n, in,
                         out_a);
        expected.add(Product(codes(db, tokens_n, out_b, p.gradient), weight_backward(wb, out_b, p), tokens_n,
                             in, out_b));
        expected.compare(download(dx), 0);
        const auto xt = transposed_codes_of(
            x, tokens_n, in, p.backward_quantized() ? p.activation : QuantSpec::bf16(), &multiplier);
        for (const auto& [name, d, o_size] : {std::tuple("model.layers.0.mlp.gate_proj.weight", da, out_a),
                                              {"model.layers.0.mlp.up_proj.weight", db, out_b}}) {
            Product dw(transposed_codes_of(d, tokens_n, o_size, p.gradient), xt, o_size, in, tokens_n);
            dw.add(dw);
            dw.compare(download(net.params.find(name)->grad), 0);
        }

        // Counters: every value quantized is counted once a quantization.
        uint64_t activation = 0, gradient = 0;
        for (const auto& r : net.counters.take())
            (r.role == Role::activation ? activation : gradient) += r.counts.values;
        const uint64_t backwards = p.backward_quantized() ? 2 : 0;
        CHECK(activation == (p.activation.quantized() ? tokens_n * in : 0) + backwards * tokens_n * in);
        CHECK(gradient == 2 * backwards * tokens_n * (out_a + out_b));
    }
}

TEST_CASE("FP8 gradients point where BF16 gradients point") {
    ModelSpec spec = tiny_spec();
    spec.hidden = 160;
    PackedBatch batch;
    batch.add(tokens(100, 1));
    batch.add(tokens(60, 2));
    const auto d = normal(static_cast<size_t>(batch.rows() * spec.hidden), 9);
    auto gradients = [&](PrecisionRules rules) {
        Tiny tiny(spec, rules);
        tiny.calibrate(batch);
        tiny.gradients(batch, d);
        return tiny.all_gradients();
    };
    const auto reference = gradients(rules_of(PrecisionMode::bf16));
    for (const Case& c : cases()) {
        if (c.name == "static") continue;  // its number is arbitrary here
        INFO(c.name);
        for (bool cache : {false, true}) {
            PrecisionRules rules = c.rules;
            if (cache) rules.kv_cache.format = rules.attention = CacheFormat::fp8;
            const auto g = gradients(rules);
            double dot = 0, gg = 0, rr = 0;
            for (size_t i = 0; i < g.size(); ++i)
                for (size_t j = 0; j < g[i].size(); ++j) {
                    dot += static_cast<double>(g[i][j]) * reference[i][j];
                    gg += static_cast<double>(g[i][j]) * g[i][j];
                    rr += static_cast<double>(reference[i][j]) * reference[i][j];
                }
            // E4M3 keeps 3 bits: about 2.5 % noise in each of seven products a layer, forward and backward.
            CHECK(dot / std::sqrt(gg * rr) > 0.95);
            CHECK(std::sqrt(gg / rr) == Approx(1).epsilon(0.05));
        }
    }
}

}  // namespace
}  // namespace fp8rl
