// Tokenizers: equal to the `tokenizers` library on 2,000 lines of mixed text
// (tests/data/tokenizer_lines.json, made by scripts/make_tokenizer_goldens.py), bytes back exactly, streams
// without half characters.
#include "io/tokenizer.h"

#include <cstdio>

#include "contains.h"
#include "core/error.h"
#include "io/bpe.h"
#include "io/gguf.h"
#include "model_file.h"
#include "test.h"

using namespace fp8rl;
using fp8rl::test::Contains;
using fp8rl::test::data_path;
using fp8rl::test::read_json;
using Ids = std::vector<int32_t>;

static std::string fnv1a(const Ids& ids) {
    uint64_t h = 0xCBF29CE484222325u;
    for (int32_t id : ids)
        for (int k = 0; k < 4; ++k) h = (h ^ (static_cast<uint32_t>(id) >> (8 * k) & 255)) * 0x100000001B3u;
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(h));
    return text;
}

static std::string shown(const Ids& ids) {
    std::string s;
    for (int32_t id : ids) s += std::to_string(id) + " ";
    return s;
}

static void check_lines(const Tokenizer& t, const nlohmann::json& lines, const nlohmann::json& hashes) {
    REQUIRE(lines.size() == 2000);
    for (size_t i = 0; i < lines.size(); ++i) {
        const auto line = lines[i].get<std::string>();
        const auto special = hashes["special"][i].get<std::string>();
        auto plain = hashes["plain"][i].get<std::string>();
        if (plain.empty()) plain = special;
        Ids a = t.encode(line, true), b = t.encode(line, false);
        INFO("line " << i << ": " << lines[i].dump() << "\nids " << shown(a) << "\nplain ids " << shown(b));
        CHECK(fnv1a(a) == special);
        CHECK(fnv1a(b) == plain);
    }
}

// The tiny file's vocabulary under another pre-tokenizer.
static BpeModel tiny_model(const GgufFile& file) {
    BpeModel m;
    m.source = "tiny";
    m.pre = "smollm";
    m.tokens = file.strings("tokenizer.ggml.tokens");
    m.merges = file.strings("tokenizer.ggml.merges");
    for (int64_t type : file.integers("tokenizer.ggml.token_type"))
        m.types.push_back(type == 3   ? BpeModel::Type::control
                          : type == 4 ? BpeModel::Type::user_defined
                                      : BpeModel::Type::normal);
    return m;
}

TEST_CASE("every pre-tokenizer gives the ids of the tokenizers library on 2,000 lines") {
    GgufFile file(data_path("tiny.gguf"));
    auto golden = read_json("tokenizer_lines.json");
    for (const char* pre : {"smollm", "gpt-2", "llama-bpe", "qwen2"}) {
        INFO(pre);
        BpeModel m = tiny_model(file);
        m.pre = pre;
        check_lines(BpeTokenizer(m), golden["lines"], golden["tiny"][pre]);
    }
}

TEST_CASE("SmolLM2's own vocabulary gives the ids of the tokenizers library on 2,000 lines") {
    const std::string path = fp8rl::test::smollm2_path();
    if (path.empty()) {
        WARN("skipped: models/SmolLM2-135M-Instruct.gguf is not there (scripts/get_smollm2.sh fetches it)");
        return;
    }
    GgufFile file(path);
    auto t = tokenizer_from_gguf(file);
    auto golden = read_json("tokenizer_lines.json");
    check_lines(*t, golden["lines"], golden["smollm2"]);
    CHECK(t->vocab_size() == 49152);
    CHECK(t->bos_id() == 1);
    CHECK(t->eos_id() == 2);
    CHECK(t->stop_ids() == Ids{2});
    CHECK_FALSE(t->add_bos());
    CHECK(t->special_id("<|im_end|>") == 2);
    CHECK(t->chat_template().find("<|im_start|>") != std::string::npos);
    // Control characters that SmolLM2's vocabulary lacks are in those lines; they are counted, not hidden.
    CHECK(t->dropped_bytes() > 0);
}

TEST_CASE("decoding gives back the bytes, whatever they are") {
    GgufFile file(data_path("tiny.gguf"));
    auto bpe = tokenizer_from_gguf(file);
    auto bytes = byte_tokenizer();
    auto lines = read_json("tokenizer_lines.json")["lines"];
    std::string ill_formed;
    for (int i = 255; i >= 0; --i) ill_formed += static_cast<char>(i);
    for (const Tokenizer* t : {bpe.get(), bytes.get()}) {
        for (size_t i = 0; i < lines.size(); i += 7) {
            auto line = lines[i].get<std::string>();
            CHECK(t->decode(t->encode(line, true)) == line);
            CHECK(t->decode(t->encode(line, false)) == line);
        }
        CHECK(t->decode(t->encode(ill_formed, false)) == ill_formed);
        CHECK(t->encode("", true).empty());
        CHECK(t->dropped_bytes() == 0);
    }
}

TEST_CASE("special tokens in text are split out only when that is allowed") {
    GgufFile file(data_path("tiny.gguf"));
    auto t = tokenizer_from_gguf(file);
    const int32_t end = *t->special_id("<|im_end|>");
    CHECK(t->encode("<|im_end|>", true) == Ids{end});
    Ids plain = t->encode("<|im_end|>", false);
    CHECK(plain.size() > 1);
    for (int32_t id : plain) CHECK_FALSE(t->is_special(id));
    CHECK(t->is_special(end));
    // A user-defined token is always one token, and is shown.
    const int32_t tool = *t->special_id("<tool>");
    CHECK(t->encode("a<tool>", false).back() == tool);
    CHECK_FALSE(t->is_special(tool));
    CHECK(t->decode(Ids{end, tool}, false) == "<tool>");
    CHECK(t->decode(Ids{end, tool}, true) == "<|im_end|><tool>");
    CHECK_FALSE(t->special_id("the").has_value());
    CHECK(t->stop_ids() == Ids{t->eos_id(), end});
}

TEST_CASE("the byte tokenizer has 256 bytes and 8 special tokens") {
    auto t = byte_tokenizer();
    CHECK(t->vocab_size() == 264);
    CHECK(t->encode("A\xFF", true) == Ids{65, 255});
    CHECK(t->encode("<|bos|>x<|eos|>", true) == Ids{256, 'x', 257});
    CHECK(t->encode("<|bos|>", false).size() == 7);
    CHECK(t->bos_id() == 256);
    CHECK(t->stop_ids() == Ids{257});
    CHECK(t->special_id("<|pad|>") == 258);
    CHECK_THROWS_AS(t->bytes_of(264), Error);
    CHECK_THROWS_AS(t->bytes_of(-1), Error);
}

TEST_CASE("a stream shows whole characters only, and everything in the end") {
    auto t = byte_tokenizer();
    auto stream = [&](const std::string& bytes) {
        StreamDecoder d(*t);
        std::vector<std::string> parts;
        for (char c : bytes) parts.push_back(d.push(static_cast<uint8_t>(c)));
        parts.push_back(d.finish());
        return parts;
    };
    using Parts = std::vector<std::string>;
    CHECK(stream("a\xF0\x9F\x98\x80z") == Parts{"a", "", "", "", "\xF0\x9F\x98\x80", "z", ""});
    CHECK(stream("\xC3") == Parts{"", "\xEF\xBF\xBD"});
    CHECK(stream("\xC3\x28") == Parts{"", "\xEF\xBF\xBD(", ""});
    CHECK(stream("\xE2\x82") == Parts{"", "", "\xEF\xBF\xBD"});
    CHECK(stream("\x80") == Parts{"\xEF\xBF\xBD", ""});
    StreamDecoder d(*t);
    CHECK(d.push(t->eos_id()).empty());
}

TEST_CASE("a long run of one kind is encoded in a moment") {
    GgufFile file(data_path("tiny.gguf"));
    auto t = tokenizer_from_gguf(file);
    for (const char* unit : {"a", " ", "!", "7", "\n", "\xD8\xA7"}) {
        std::string text;
        for (int i = 0; i < 200000; ++i) text += unit;
        CHECK(t->decode(t->encode(text, false)) == text);
    }
}

TEST_CASE("f06: the stop set is that of the generation config, else of the config, plus the tokenizer's") {
    auto f = read_json("f06_eos_ids.json");
    const Ids own{f["input"]["tokenizer_eos_id"].get<int32_t>()};
    for (const auto& v : f["input"]["variants"]) {
        INFO(v["name"]);
        Json generation, config;
        if (v.contains("generation_config.eos_token_id"))
            generation.set("eos_token_id",
                           Json::parse(v["generation_config.eos_token_id"].dump(), "generation"));
        if (v.contains("config.eos_token_id"))
            config.set("eos_token_id", Json::parse(v["config.eos_token_id"].dump(), "config"));
        auto expected = f["expect"]["stop_set"][v["name"].get<std::string>()].get<Ids>();
        CHECK(merge_stop_ids(&generation, &config, own) == expected);
    }
    CHECK(merge_stop_ids(nullptr, nullptr, own) == own);
    Json bad = Json::parse(R"({"eos_token_id": "</s>"})", "generation_config.json");
    CHECK_THROWS_WITH(merge_stop_ids(&bad, nullptr, own), Contains("generation_config.json: eos_token_id"));
    Json negative = Json::parse(R"({"eos_token_id": [-1]})", "generation_config.json");
    CHECK_THROWS_WITH(merge_stop_ids(&negative, nullptr, own), Contains("is not a token id"));
}

TEST_CASE("a tokenizer that does not add up is refused") {
    GgufFile file(data_path("tiny.gguf"));
    auto refusal = [&](auto change) {
        BpeModel m = tiny_model(file);
        change(m);
        try {
            BpeTokenizer t(m);
        } catch (const Error& e) {
            CHECK(e.exit_code() == 2);
            return std::string(e.what());
        }
        return std::string("accepted");
    };
    CHECK(refusal([](BpeModel&) {}) == "accepted");
    CHECK_THAT(refusal([](BpeModel& m) { m.pre = "tekken"; }), Contains("tekken") && Contains("qwen2"));
    CHECK_THAT(refusal([](BpeModel& m) { m.merges[3] = "ab"; }),
               Contains("merge 3 \"ab\": is not two parts"));
    CHECK_THAT(refusal([](BpeModel& m) { m.merges[3] = "a b c"; }), Contains("is not two parts"));
    CHECK_THAT(refusal([](BpeModel& m) { m.merges[3] = "a  b"; }), Contains("is not two parts"));
    CHECK_THAT(refusal([](BpeModel& m) { m.merges[3] = "a qqqq"; }),
               Contains("a part is not in the vocabulary"));
    CHECK_THAT(refusal([](BpeModel& m) { m.merges[3] = "# $"; }), Contains("what it makes is not"));
    CHECK_THAT(refusal([](BpeModel& m) { m.tokens[400] = m.tokens[300]; }), Contains("stands there twice"));
    CHECK_THAT(refusal([](BpeModel& m) { m.types.pop_back(); }), Contains("token types"));
    CHECK_THAT(refusal([](BpeModel& m) { m.tokens.clear(), m.types.clear(); }), Contains("0 tokens"));
    CHECK_THAT(refusal([](BpeModel& m) { m.eos_id = 700; }), Contains("outside the vocabulary of 700"));
    CHECK_THAT(refusal([](BpeModel& m) { m.stop_ids = {-5}; }), Contains("outside the vocabulary"));
    CHECK_THAT(refusal([](BpeModel& m) { m.add_bos = true; }), Contains("bos"));
}
