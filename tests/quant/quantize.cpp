// Claims about the quantization rules, against the goldens. Codes and scales are compared to the bit.
#include "goldens.h"

using namespace fp8rl;
using namespace fp8rl::test;

static QuantSpec vllm(QuantSpec s) {
    s.rule = ScaleRule::vllm;
    return s;
}

TEST_CASE("every edge block of the te, vllm, per-tensor and MX rules has the golden scale and codes") {
    struct Rule {
        const char* field;
        QuantSpec spec;
    };
    const Rule rules[] = {
        {"te_fp32_e4m3", QuantSpec::block_1x128()},
        {"te_pow2_e4m3", QuantSpec::block_1x128(ScaleKind::pow2)},
        {"te_fp32_e5m2", QuantSpec::block_1x128(ScaleKind::f32, DType::e5m2)},
        {"te_pow2_e5m2", QuantSpec::block_1x128(ScaleKind::pow2, DType::e5m2)},
        {"per_tensor_fp32_e4m3", QuantSpec::tensor(DType::e4m3)},
        {"vllm_fp32", vllm(QuantSpec::block_1x128())},
        {"vllm_ue8m0", vllm(QuantSpec::block_1x128(ScaleKind::pow2))},
        {"mx_te_rceil", QuantSpec::mx()},
    };
    size_t compared = 0;
    for (const auto& edge : goldens().at("edges"))
        for (const auto& rule : rules) {
            INFO(edge.at("name") << " " << rule.field);
            const bool mx = rule.spec.scale == ScaleKind::e8m0;
            std::vector<float> x(mx ? 32 : 128, 0.0f);
            for (const auto& e : edge.at("bf16"))
                if (e[0].get<size_t>() < x.size()) x[e[0].get<size_t>()] = bf16_value(e[1]);
            const auto& expected = edge.at(rule.field);
            std::vector<uint8_t> codes(x.size(), 0);
            for (const auto& e : expected.at("codes")) codes[e[0].get<size_t>()] = e[1];
            const auto q = quantize_reference(x, 1, static_cast<int64_t>(x.size()), rule.spec);
            CHECK(same_codes(rule.spec.format, q.codes, codes));
            REQUIRE(q.scales.size() == 1);
            if (mx)
                CHECK(q.e8m0[0] == expected.at("e8m0"));
            else
                CHECK(bits_of(q.scales[0]) == hex(expected.at("scale_inv")));
            ++compared;
        }
    CHECK(compared == 8 * goldens().at("edges").size());
}

// The operands of `quant` by name; deepgemm entries are another project's rule.
static std::map<std::string, Quantized> quantize_operands() {
    std::map<std::string, Quantized> done;
    for (const auto& e : goldens().at("quant")) {
        const std::string name = e.at("name");
        if (name.find("deepgemm") != std::string::npos) continue;
        const Matrix m = input(name.substr(0, 1).c_str());
        const DType format = e.at("fmt") == "e5m2" ? DType::e5m2 : DType::e4m3;
        const bool pow2 = name.find("pow2") != std::string::npos || name.find("ue8m0") != std::string::npos;
        const ScaleKind kind = pow2 ? ScaleKind::pow2 : ScaleKind::f32;
        QuantSpec spec = name.find(".tensor.") != std::string::npos    ? QuantSpec::tensor(format, kind)
                         : name.find(".1x128.") != std::string::npos   ? QuantSpec::block_1x128(kind)
                         : name.find(".128x128.") != std::string::npos ? QuantSpec::block_128x128(kind)
                                                                       : QuantSpec::mx();
        if (name.find("vllm") != std::string::npos || name.find("deepseek") != std::string::npos)
            spec = vllm(spec);
        done[name] = quantize_reference(m.x, m.rows, m.k, spec);
    }
    return done;
}

TEST_CASE("the operands X and W quantize to the golden codes, scales and GEMM-ready buffers in every mode") {
    const auto operands = quantize_operands();
    CHECK(operands.size() == 13);
    for (const auto& e : goldens().at("quant")) {
        const std::string name = e.at("name");
        if (!operands.count(name)) continue;
        INFO(name);
        const Quantized& q = operands.at(name);
        std::vector<uint8_t> codes;
        if (e.contains("codes")) {
            codes = bytes(e.at("codes"));
        } else {
            codes = operands.at(e.at("diff_from")).codes;
            for (const auto& d : e.at("diff")) codes[d[0].get<size_t>()] = d[1];
        }
        CHECK(q.codes == codes);
        if (e.contains("e8m0")) {
            CHECK(q.e8m0 == bytes(e.at("e8m0")));
        } else if (e.at("scale_inv").is_string()) {
            CHECK(bits_of(q.scales.at(0)) == hex(e.at("scale_inv")));
            CHECK(bits_of(scale_of(q.spec,
                                   [&] {
                                       float a = 0;
                                       for (float x : input(name.substr(0, 1).c_str()).x) a = amax_of(a, x);
                                       return a;
                                   }())
                              .multiplier) == hex(e.at("scale")));
        } else {
            CHECK(bits(q.scales) == bits(f32s(e.at("scale_inv"))));
        }
        if (e.contains("scale_shape")) {
            CHECK(q.grid.scale_rows() == e.at("scale_shape")[0]);
            CHECK(q.grid.scale_k() == e.at("scale_shape")[1]);
        }
        if (e.contains("gemm_ready")) CHECK(bits(gemm_ready_scales(q)) == bits(f32s(e.at("gemm_ready"))));
    }
}

TEST_CASE("dequantized operands multiply to the golden GEMM results") {
    const auto operands = quantize_operands();
    for (const auto& g : goldens().at("gemm")) {
        INFO(g.at("name"));
        const auto a = operands.at(g.at("a")), b = operands.at(g.at("b"));
        const auto xa = dequantize_reference(a), xb = dequantize_reference(b);
        const int64_t m = g.at("m"), n = g.at("n"), k = g.at("k");
        size_t wrong = 0;
        for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
                float sum = 0;
                for (int64_t l = 0; l < k; ++l)
                    sum += xa[static_cast<size_t>(i * k + l)] * xb[static_cast<size_t>(j * k + l)];
                const auto at = static_cast<size_t>(i * n + j);
                wrong += !(std::abs(sum - g.at("d")[at].get<double>()) <=
                           2e-5 * g.at("abs_sum")[at].get<double>());
            }
        CHECK(wrong == 0);
    }
}

TEST_CASE("a block on which the te and vllm rules part gives each rule's own codes") {
    const auto& s = goldens().at("rule_split");
    const auto x = bf16s(s.at("bf16"));
    const auto te = quantize_reference(x, 1, 128, QuantSpec::block_1x128());
    auto expected = bytes(s.at("te").at("codes"));
    CHECK(te.codes == expected);
    CHECK(bits_of(te.scales[0]) == hex(s.at("te").at("scale_inv")));
    const auto other = quantize_reference(x, 1, 128, vllm(QuantSpec::block_1x128()));
    REQUIRE(!s.at("vllm").at("diff").empty());
    for (const auto& d : s.at("vllm").at("diff")) expected[d[0].get<size_t>()] = d[1];
    CHECK(other.codes == expected);
    CHECK(bits_of(other.scales[0]) == hex(s.at("vllm").at("scale_inv")));
}

TEST_CASE("quantizing along the other axis gives the golden transposed copy, its last block partial") {
    for (const auto& c : goldens().at("columnwise")) {
        const int64_t rows = c.at("input_shape")[0], k = c.at("input_shape")[1];
        const auto q = quantize_transposed_reference(bf16s(c.at("input")), rows, k, QuantSpec::block_1x128());
        CHECK(q.grid.rows == k);
        CHECK(q.codes == bytes(c.at("codes")));
        CHECK(bits(q.scales) == bits(f32s(c.at("scale_inv"))));
        CHECK(bits(gemm_ready_scales(q)) == bits(f32s(c.at("gemm_ready"))));
    }
}

TEST_CASE("MXFP8 codes, scales and swizzled scale buffers are golden in both orientations") {
    const Matrix y = input("Y");
    for (const auto& c : goldens().at("mx").at("cases")) {
        if (c.at("mode") != "te_rceil") continue;  // ocp_floor is not a rule of this project
        const auto row = quantize_reference(y.x, y.rows, y.k, QuantSpec::mx());
        CHECK(row.codes == bytes(c.at("row").at("codes")));
        CHECK(row.e8m0 == bytes(c.at("row").at("e8m0")));
        CHECK(swizzle_e8m0(row.e8m0, row.grid.scale_rows(), row.grid.scale_k()) ==
              bytes(c.at("row").at("swizzled")));

        const auto column = quantize_transposed_reference(y.x, y.rows, y.k, QuantSpec::mx());
        const auto codes = bytes(c.at("col").at("codes_rowmajor_untransposed"));
        const auto e8m0 = bytes(c.at("col").at("e8m0"));  // [row blocks, columns]
        size_t wrong = 0;
        for (int64_t r = 0; r < y.rows; ++r)
            for (int64_t j = 0; j < y.k; ++j) {
                wrong += column.codes[static_cast<size_t>(j * y.rows + r)] !=
                         codes[static_cast<size_t>(r * y.k + j)];
                wrong += column.e8m0[static_cast<size_t>(column.grid.index(j, r))] !=
                         e8m0[static_cast<size_t>(r / 32 * y.k + j)];
            }
        CHECK(wrong == 0);
        CHECK(swizzle_e8m0(column.e8m0, column.grid.scale_rows(), column.grid.scale_k()) ==
              bytes(c.at("col").at("swizzled")));
    }
    for (const auto& m : goldens().at("swizzle_map")) CHECK(swizzle_offset(m[0], m[1], m[2]) == m[3]);
}

TEST_CASE("a 130x130 matrix has a 2x2 grid of 128x128 blocks, and its codes transpose without requantizing") {
    const auto& s = goldens().at("sparse_128x128");
    std::vector<float> x(130 * 130, 0.0f), xt(130 * 130, 0.0f);
    for (const auto& e : s.at("nonzero")) {
        x[e[0].get<size_t>() * 130 + e[1].get<size_t>()] = bf16_value(e[2]);
        xt[e[1].get<size_t>() * 130 + e[0].get<size_t>()] = bf16_value(e[2]);
    }
    for (const auto& c : s.at("cases")) {
        INFO(c.at("rule") << " pow2 " << c.at("pow2"));
        QuantSpec spec = QuantSpec::block_128x128(c.at("pow2") ? ScaleKind::pow2 : ScaleKind::f32);
        if (c.at("rule") == "deepseek") spec = vllm(spec);
        const auto q = quantize_reference(x, 130, 130, spec);
        CHECK(bits(q.scales) == bits(f32s(c.at("scale_inv"))));
        std::vector<uint8_t> codes(x.size(), 0);
        for (size_t i = 0; i < s.at("nonzero").size(); ++i) {
            const auto& at = s.at("nonzero")[i];
            codes[at[0].get<size_t>() * 130 + at[1].get<size_t>()] = c.at("codes")[i];
        }
        CHECK(q.codes == codes);
        CHECK(bits(gemm_ready_scales(q)) == bits(f32s(c.at("gemm_ready_row"))));
        const auto t = transposed_codes(q);
        CHECK(bits(gemm_ready_scales(t)) == bits(f32s(c.at("gemm_ready_col"))));
        const auto again = quantize_reference(xt, 130, 130, spec);
        CHECK(t.codes == again.codes);
        CHECK(bits(t.scales) == bits(again.scales));
    }
}

TEST_CASE("the KV cache's codes and values are golden for a static scale") {
    const Matrix x = input("X");
    for (const auto& c : goldens().at("kv_cache")) {
        const float scale = f32(c.at("scale"));
        const size_t from = c.at("row").get<size_t>() * static_cast<size_t>(x.k);
        const auto codes = bytes(c.at("codes"));
        const auto values = bf16s(c.at("dequant_bf16"));
        for (size_t i = 0; i < c.at("count").get<size_t>(); ++i) {
            const uint8_t code = kv_encode(x.x[from + i], scale);
            REQUIRE(code == codes[i]);
            REQUIRE(bits_of(kv_decode(code, scale)) == bits_of(values[i]));
        }
    }
    CHECK(kv_scale(448, 1) == 1);
    CHECK(kv_scale(0, 1.05f) == 1);
    CHECK(kv_scale(INFINITY, 1.05f) == 1);
    CHECK(kv_scale(896, 1.5f) == 3);
}

TEST_CASE("counts tell saturated and flushed values from honest zeros") {
    // Multiplier 1: 500 saturates, 460 rounds to 448 and does not; 1e-4 is below half the least subnormal
    // (2^-10).
    const std::vector<float> x = {500, 460, -INFINITY, NAN, 0, -0.0f, 1e-4f, 0.0019f};
    const float one = 1;
    const auto q =
        quantize_reference(x, 1, 8, QuantSpec::tensor(DType::e4m3, ScaleKind::f32, Scaling::fixed), &one);
    CHECK(q.counts.values == 8);
    CHECK(q.counts.saturated == 2);
    CHECK(q.counts.flushed == 1);
    // A block's own amax times its scale is 448 or one rounding above: never counted.
    for (float amax : {0.1f, 0.7f, 3.3f, 1e-3f}) {
        const std::vector<float> block = {amax, -amax};
        CHECK(quantize_reference(block, 1, 2, QuantSpec::block_1x128()).counts.saturated == 0);
    }
}

TEST_CASE("impossible quantizations are defects") {
    const std::vector<float> x(256, 1.0f);
    const float one = 1;
    CHECK_THROWS_AS(quantize_reference(x, 2, 128, QuantSpec::bf16()), Error);
    CHECK_THROWS_AS(quantize_reference(x, 2, 127, QuantSpec::block_1x128()), Error);
    CHECK_THROWS_AS(quantize_reference(x, 2, 128, QuantSpec::block_1x128(), &one), Error);
    CHECK_THROWS_AS(
        quantize_reference(x, 2, 128, QuantSpec::tensor(DType::e4m3, ScaleKind::f32, Scaling::delayed)),
        Error);
    CHECK_THROWS_AS(transposed_codes(quantize_reference(x, 2, 128, QuantSpec::block_1x128())), Error);
    CHECK(quantize_reference({}, 0, 128, QuantSpec::block_1x128()).codes.empty());
    CHECK(quantize_reference({}, 0, 0, QuantSpec::tensor(DType::e4m3)).codes.empty());
}
