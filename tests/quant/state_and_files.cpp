// Claims about delayed scaling (goldens `delayed`) and about block-quantized weights in files (f01, f02).
#include "goldens.h"

using namespace fp8rl;
using namespace fp8rl::test;

TEST_CASE("delayed scaling follows the golden history, amax and scale step by step") {
    for (const auto& run : goldens().at("delayed")) {
        INFO(run.at("algo") << " " << run.at("fmt"));
        PerTensorRules rules;
        rules.history = run.at("history_len");
        rules.margin = run.at("margin");
        rules.amax = run.at("algo") == "max" ? AmaxRule::max : AmaxRule::most_recent;
        DelayedScale state(run.at("fmt") == "e5m2" ? DType::e5m2 : DType::e4m3, rules);
        for (const auto& step : run.at("steps")) {
            INFO("amax " << step[0]);
            state.observe(f32(step[0]));
            state.begin_step();
            CHECK(bits_of(state.amax_used()) == hex(step[1]));
            CHECK(bits_of(state.multiplier()) == hex(step[2]));
            CHECK(bits(state.history()) == bits(f32s(step[3])));
            CHECK(state.stored() == 1.0f / state.multiplier());
        }
    }
}

TEST_CASE("a delayed scale is frozen inside a step and survives a checkpoint") {
    PerTensorRules rules;
    rules.history = 3;
    DelayedScale a(DType::e4m3, rules);
    a.observe(7);
    CHECK(a.multiplier() == 1);
    a.begin_step();
    CHECK(a.multiplier() == 64);
    a.observe(1000);
    CHECK(a.multiplier() == 64);
    DelayedScale b(DType::e4m3, rules);
    b.restore(a.history(), a.multiplier());
    CHECK(b.multiplier() == 64);
    a.begin_step();
    b.begin_step();
    CHECK(a.multiplier() == b.multiplier());
    CHECK(a.history() == b.history());
    CHECK_THROWS_AS(b.restore({1, 2}, 1), Error);

    DelayedScale p(DType::e4m3, rules, true);
    p.observe(5);
    p.begin_step();
    CHECK(p.multiplier() == 64);  // 89.6 rounded down
}

// f01: a block of zeros, or of almost nothing.
TEST_CASE("f01: blocks of zeros and of tiny values give finite scales, finite values and the stated error") {
    const auto f = read_json("f01_zero_block.json");
    const auto& in = f.at("input");
    const auto& expect = f.at("expect");
    std::vector<float> w;
    for (const auto& row : in.at("weights"))
        for (double v : row) w.push_back(static_cast<float>(v));
    for (ScaleKind kind : {ScaleKind::f32, ScaleKind::pow2})
        for (ScaleRule rule : {ScaleRule::te, ScaleRule::vllm}) {
            QuantSpec spec{DType::e4m3, kind, rule, Scaling::current, 2, 2};
            const auto q = quantize_reference(w, 4, 6, spec);
            const auto d = dequantize_reference(q);
            CHECK(q.grid.scale_rows() == expect.at("scale_shape")[0]);
            CHECK(q.grid.scale_k() == expect.at("scale_shape")[1]);
            for (size_t i = 0; i < w.size(); ++i) {
                INFO("element " << i);
                const float scale =
                    q.scales[static_cast<size_t>(q.grid.index(int64_t(i) / 6, int64_t(i) % 6))];
                CHECK((is_finite(scale) && scale > 0));
                CHECK(is_finite(d[i]));
                CHECK(!is_nan_code<E4m3>(q.codes[i]));
                const auto& b = expect.at("bytes")[i / 6][i % 6];
                const double bound = std::max(std::abs(double(w[i])) / 16, 1e-12);
                if (b.is_null()) CHECK(std::abs(double(d[i]) - double(w[i])) <= bound);
                if (!b.is_null() && kind == ScaleKind::f32) CHECK(q.codes[i] == hex(b));
            }
            if (kind == ScaleKind::f32)
                for (size_t r = 0; r < 2; ++r)
                    CHECK(q.scales[r * 3] == Approx(expect.at("scales")[r][0].get<double>()).epsilon(1e-6));
        }
    for (const auto& group : in.at("activation_groups_1x4")) {
        std::vector<float> x;
        for (double v : group) x.push_back(static_cast<float>(v));
        for (QuantSpec spec : {QuantSpec::block_1x128(), QuantSpec::mx(), QuantSpec::tensor(DType::e4m3),
                               QuantSpec::block_1x128(ScaleKind::pow2)}) {
            const auto d = dequantize_reference(quantize_reference(x, 1, 4, spec));
            for (size_t i = 0; i < x.size(); ++i) CHECK(std::abs(d[i] - x[i]) <= std::abs(x[i]) / 16);
        }
    }
}

// f02: sizes that are not a multiple of the block.
TEST_CASE("f02: ragged blocks have ceiling-shaped scales and use only their own elements") {
    const auto f = read_json("f02_ragged_blocks.json");
    const auto& expect = f.at("expect");
    std::vector<float> w;
    for (const auto& row : f.at("input").at("weights"))
        for (double v : row) w.push_back(static_cast<float>(v));
    const auto q =
        quantize_reference(w, 5, 9, {DType::e4m3, ScaleKind::f32, ScaleRule::te, Scaling::current, 4, 4});
    const auto d = dequantize_reference(q);
    for (size_t i = 0; i < w.size(); ++i) {
        CHECK(q.codes[i] == hex(expect.at("bytes")[i / 9][i % 9]));
        CHECK(d[i] == Approx(expect.at("decoded")[i / 9][i % 9].get<double>()).epsilon(1e-6));
    }
    REQUIRE(q.grid.scale_rows() == 2);
    REQUIRE(q.grid.scale_k() == 3);
    for (size_t i = 0; i < 6; ++i)
        CHECK(q.scales[i] == Approx(expect.at("scales")[i / 3][i % 3].get<double>()).epsilon(1e-6));
    for (const auto& row : f.at("shape_table_block_128")) {
        const BlockGrid g(QuantSpec::block_128x128(), row.at("weight")[0], row.at("weight")[1]);
        CHECK(g.scale_rows() == row.at("scale")[0]);
        CHECK(g.scale_k() == row.at("scale")[1]);
    }
}

TEST_CASE(
    "f02: on import the block size is the file's word, and a scale tensor of another shape is refused") {
    const auto trap = read_json("f02_ragged_blocks.json").at("import_trap");
    const auto& w = trap.at("weight_shape");
    const auto& s = trap.at("scale_shape");
    const auto& b = trap.at("weight_block_size");
    const auto g = file_grid("w", w[0], w[1], s[0], s[1], b[0], b[1]);
    CHECK(g.index(127, 0) / g.scale_k() == trap.at("row_127_uses_scale_row"));
    CHECK(g.index(128, 0) / g.scale_k() == trap.at("row_128_uses_scale_row"));
    CHECK_THROWS_AS(file_grid("w", 1000, 128, 7, 1, 128, 128), Error);
    CHECK_THROWS_AS(file_grid("w", 1000, 128, 8, 1, 0, 128), Error);
}

TEST_CASE("f02: fused parts must be whole blocks, all but the last") {
    const auto trap = read_json("f02_ragged_blocks.json").at("export_trap");
    const auto parts = [&](const char* name) {
        return trap.at("fused_by_consumer").at(name).get<std::vector<int64_t>>();
    };
    CHECK(fused_parts_ok(parts("qkv"), 128) == trap.at("qkv_ok").get<bool>());
    CHECK(fused_parts_ok(parts("gate_up"), 128) == trap.at("gate_up_ok").get<bool>());
    CHECK(fused_parts_ok(std::vector<int64_t>{128, 100}, 128));
    CHECK(fused_parts_ok({}, 128));
}
