// Claims about when a completion ends (field case f06 among them), what is drawn, and what is refused.
#include <cmath>
#include <map>

#include "core/rng.h"
#include "rollout/refusal.h"
#include "rollout/sampler.h"

using namespace fp8rl;

namespace {

struct Completed {
    std::vector<int32_t> kept;
    Finish finish = Finish::length;
};

// Draws the forced samples in order until the rule ends the completion.
Completed complete(const SamplingConfig& config, const std::vector<int32_t>& forced) {
    StopRule rule(config);
    Completed c;
    std::string tail;
    for (int32_t token : forced) {
        c.kept.push_back(token);
        if (auto f = rule.after(token, static_cast<int64_t>(c.kept.size()), config.max_new_tokens, tail)) {
            c.finish = *f;
            return c;
        }
    }
    FAIL("the completion did not end");
    return c;
}

SamplingConfig with_stops(std::vector<std::string> stops, std::map<int32_t, std::string> vocabulary) {
    SamplingConfig c;
    c.stop_strings = std::move(stops);
    c.decode = [v = std::move(vocabulary)](int32_t id) -> std::string_view { return v.at(id); };
    return c;
}

}  // namespace

TEST_CASE("f06: any id of the stop set ends a completion, and stays in it and in the loss") {
    const auto f = test::read_json("f06_eos_ids.json");
    const auto &input = f.at("input"), &expect = f.at("expect");
    for (const auto& variant : input.at("variants")) {
        std::string name = variant.at("name");
        CAPTURE(name);
        SamplingConfig config;
        config.max_new_tokens = input.at("max_new_tokens");
        config.stop_ids = expect.at("stop_set").at(name).get<std::vector<int32_t>>();
        const auto& e = expect.at(name == "int" ? "int" : "list");
        int truncated = 0, tokens = 0, samples = 0;
        for (const auto& [sample, forced] : input.at("forced_samples").items()) {
            CAPTURE(sample);
            Completed c = complete(config, forced.get<std::vector<int32_t>>());
            CHECK(c.kept == e.at("kept").at(sample).get<std::vector<int32_t>>());
            CHECK(name_of(c.finish) == e.at("finish").at(sample).get<std::string>());
            // An episode's arrays cover exactly what is kept; each entry is in the loss.
            if (e.contains("loss_mask"))
                CHECK(std::vector<int>(c.kept.size(), 1) ==
                      e.at("loss_mask").at(sample).get<std::vector<int>>());
            truncated += c.finish == Finish::length;
            tokens += static_cast<int>(c.kept.size());
            ++samples;
        }
        CHECK(truncated / double(samples) == e.at("truncated_fraction").get<double>());
        if (e.contains("mean_length")) CHECK(tokens / double(samples) == e.at("mean_length").get<double>());
    }
}

TEST_CASE("with ignore_eos neither ids nor strings end a completion") {
    SamplingConfig config = with_stops({"b"}, {{1, "a"}, {2, "b"}, {7, ""}});
    config.stop_ids = {7};
    config.max_new_tokens = 3;
    config.ignore_eos = true;
    Completed c = complete(config, {7, 2, 1, 1});
    CHECK(c.kept == std::vector<int32_t>{7, 2, 1});
    CHECK(c.finish == Finish::length);
}

TEST_CASE("a stop string is found across token borders and inside a token, and its last token is kept") {
    SamplingConfig config = with_stops(
        {"\n\nQ:", "END"}, {{1, "x"}, {2, "\n"}, {3, "\nQ"}, {4, ":y"}, {5, "aENDb"}, {6, "EN"}, {7, "D"}});
    config.max_new_tokens = 8;
    SECTION("over three tokens, ending inside the third") {
        Completed c = complete(config, {1, 2, 3, 4, 1});
        CHECK(c.kept == std::vector<int32_t>{1, 2, 3, 4});
        CHECK(c.finish == Finish::stop);
    }
    SECTION("inside one token") { CHECK(complete(config, {1, 5, 1}).kept == std::vector<int32_t>{1, 5}); }
    SECTION("a false start does not hide the true one") {
        CHECK(complete(config, {6, 6, 7, 1}).kept == std::vector<int32_t>{6, 6, 7});
        CHECK(complete(config, {2, 2, 2, 3, 4, 1}).kept == std::vector<int32_t>{2, 2, 2, 3, 4});
    }
    SECTION("pieces that are not adjacent are no match") {
        Completed c = complete(config, {6, 1, 7, 1, 1, 1, 1, 1});
        CHECK(c.kept.size() == 8);
        CHECK(c.finish == Finish::length);
    }
}

TEST_CASE("a stop string of bytes inside characters is matched as bytes") {
    SamplingConfig config =
        with_stops({"\xE2\x82\xAC"}, {{1, "\xE2"}, {2, "\x82"}, {3, "\xAC"}});  // the euro sign
    CHECK(complete(config, {1, 1, 2, 3}).kept == std::vector<int32_t>{1, 1, 2, 3});
}

TEST_CASE("the last token allowed may still be a stop") {
    SamplingConfig config;
    config.stop_ids = {9};
    config.max_new_tokens = 2;
    CHECK(complete(config, {1, 9}).finish == Finish::stop);
    CHECK(complete(config, {1, 2}).finish == Finish::length);
}

TEST_CASE("a draw is keyed by seed, step, prompt, sample and token, each of which changes it") {
    SamplingConfig config;
    config.seed = 11;
    Request request{3, 4, {}};
    float u = sample_params(config, 2, request, 5).uniform;
    CHECK(u == sampling_uniform(11, 2, 3, 4, 5));
    CHECK(u != sample_params(config, 3, request, 5).uniform);
    CHECK(u != sample_params(config, 2, Request{4, 4, {}}, 5).uniform);
    CHECK(u != sample_params(config, 2, Request{3, 5, {}}, 5).uniform);
    CHECK(u != sample_params(config, 2, request, 6).uniform);
    config.seed = 12;
    CHECK(u != sample_params(config, 2, request, 5).uniform);
}

TEST_CASE("greedy decoding ignores top-p and top-k, and its log-probs are those of temperature 1") {
    SamplingConfig config;
    config.temperature = 0;
    config.top_p = 0.5f;
    config.top_k = 3;
    SampleParams p = sample_params(config, 0, {}, 0);
    CHECK(p.temperature == 0);
    CHECK(p.top_p == 1);
    CHECK(p.top_k == 0);
    CHECK_FALSE(config.truncates());
    CHECK(config.logprob_temperature() == 1);
}

TEST_CASE("impossible sampling settings are refused by name") {
    auto message = [](auto&& change) {
        SamplingConfig c;
        change(c);
        return test::refusal([&] { validate(c); });
    };
    using test::has;
    CHECK(message([](auto&) {}).empty());
    CHECK(has(message([](auto& c) { c.temperature = -1; }), "temperature -1"));
    CHECK(has(message([](auto& c) { c.temperature = NAN; }), "temperature nan"));
    CHECK(has(message([](auto& c) { c.top_p = 0; }), "top_p 0"));
    CHECK(has(message([](auto& c) { c.top_p = 1.5f; }), "top_p 1.5"));
    CHECK(has(message([](auto& c) { c.top_k = -2; }), "top_k -2"));
    CHECK(has(message([](auto& c) { c.max_new_tokens = 0; }), "max_new_tokens 0"));
    CHECK(has(message([](auto& c) { c.stop_strings = {""}; }), "empty stop string"));
    CHECK(has(message([](auto& c) { c.stop_strings = {"x"}; }), "tokenizer"));
}
