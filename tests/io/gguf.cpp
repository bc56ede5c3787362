// GGUF: metadata and tensors of a file that the gguf package wrote (tests/data/tiny.gguf); dequantized floats
// equal to that package's, bit for bit; cut and lying files refused.
#include "io/gguf.h"

#include <bit>
#include <cstring>

#include "contains.h"
#include "core/error.h"
#include "io/tokenizer.h"
#include "model_file.h"
#include "test.h"

using namespace fp8rl;
using fp8rl::test::Contains;
using fp8rl::test::data_path;
using fp8rl::test::read_json;
using fp8rl::test::read_text;

static std::string tiny_bytes() { return read_text(data_path("tiny.gguf")); }

static std::string refusal(std::string bytes) {
    try {
        GgufFile::from_memory(std::move(bytes), "f.gguf");
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        return e.what();
    }
    return "opened";
}

TEST_CASE("metadata of every kind is read") {
    GgufFile f(data_path("tiny.gguf"));
    CHECK(f.version() == 3);
    CHECK(f.string("general.architecture") == "llama");
    CHECK(f.integer("test.u8") == 200);
    CHECK(f.integer("test.i8") == -100);
    CHECK(f.integer("test.u16") == 60000);
    CHECK(f.integer("test.i16") == -30000);
    CHECK(f.integer("test.u32") == 4000000000);
    CHECK(f.integer("test.i32") == -2000000000);
    CHECK(f.integer("test.u64") == int64_t{1} << 60);
    CHECK(f.integer("test.i64") == -(int64_t{1} << 60));
    CHECK(f.number("test.f32") == static_cast<double>(1e-5f));
    CHECK(f.number("test.f64") == 0.1);
    CHECK(f.number("test.u8") == 200.0);
    CHECK(f.boolean("test.bool"));
    CHECK(f.string("test.string") ==
          "gr\xC3\xBC\xC3\x9F"
          "e\n");
    CHECK(f.strings("test.strings") == std::vector<std::string_view>{"a", "", "\xC3\xBC"});
    CHECK(f.integers("test.integers") == std::vector<int64_t>{1, -2, 3});
    CHECK(f.numbers("test.integers") == std::vector<double>{1, -2, 3});
    CHECK(f.numbers("test.floats") == std::vector<double>{0.5, -1.25});
    CHECK(f.integer_or("test.none", 5) == 5);
    CHECK(f.string_or("test.none", "x") == "x");
    CHECK_FALSE(f.has("test.none"));
    CHECK(f.describe("test.strings") == "test.strings = 3 x string");
    CHECK(f.keys().size() > 20);
    CHECK_THROWS_WITH(f.integer("test.none"), Contains("tiny.gguf: the metadata key test.none is missing"));
    CHECK_THROWS_WITH(f.integer("test.f32"), Contains("test.f32: an integer is needed, found float32"));
    CHECK_THROWS_WITH(f.string("test.strings"), Contains("found an array of string"));
    CHECK_THROWS_WITH(f.strings("test.integers"), Contains("an array of strings is needed"));
    CHECK_THROWS_WITH(f.numbers("test.strings"), Contains("an array of numbers is needed"));
    CHECK_THROWS_WITH(f.boolean("test.u8"), Contains("a bool is needed"));
}

TEST_CASE("every tensor type decodes to the floats of the gguf package") {
    GgufFile f(data_path("tiny.gguf"));
    auto golden = read_json("tiny_gguf.json");
    REQUIRE(golden.size() == 7);
    for (auto& [name, g] : golden.items()) {
        INFO(name);
        const GgufTensor& t = f.tensor(name);
        CHECK(t.shape == g["shape"].get<std::vector<int64_t>>());
        CHECK(GgufFile::can_dequantize(t.type));
        const auto bits = g["bits"].get<std::string>();
        auto expected = [&](size_t i) {
            return static_cast<uint32_t>(std::stoul(bits.substr(8 * i, 8), nullptr, 16));
        };
        std::vector<float> all = f.dequantize(name);
        REQUIRE(all.size() * 8 == bits.size());
        size_t wrong = 0;
        for (size_t i = 0; i < all.size(); ++i) wrong += std::bit_cast<uint32_t>(all[i]) != expected(i);
        CHECK(wrong == 0);
        std::vector<float> row(static_cast<size_t>(t.cols()));
        f.dequantize_rows(t, 1, 1, row.data());
        CHECK(std::memcmp(row.data(), all.data() + t.cols(), row.size() * 4) == 0);
        CHECK_THROWS_AS(f.dequantize_rows(t, t.rows(), 1, row.data()), Error);
    }
}

TEST_CASE("a tensor type that is not decoded is refused by its name and the tensor's") {
    GgufFile f(data_path("tiny.gguf"));
    const GgufTensor& t = f.tensor("tensor.q5_0");
    CHECK(t.type_name() == "Q5_0");
    CHECK_FALSE(GgufFile::can_dequantize(t.type));
    CHECK_THROWS_WITH(f.dequantize("tensor.q5_0"),
                      Contains("tensor tensor.q5_0: type Q5_0 is not supported"));
    CHECK_THROWS_WITH(f.dequantize("tensor.none"), Contains("the tensor tensor.none is missing"));
}

TEST_CASE("version 2 reads like version 3, other files and versions are refused") {
    std::string bytes = tiny_bytes();
    bytes[4] = 2;
    GgufFile f = GgufFile::from_memory(bytes, "v2");
    CHECK(f.version() == 2);
    CHECK(f.dequantize("tensor.q4_1") == GgufFile(data_path("tiny.gguf")).dequantize("tensor.q4_1"));
    bytes[4] = 1;
    CHECK_THAT(refusal(bytes), Contains("f.gguf: GGUF version 1"));
    bytes.replace(4, 4, std::string("\0\0\0\3", 4));
    CHECK_THAT(refusal(bytes), Contains("big-endian"));
    CHECK_THAT(refusal(""), Contains("is not a GGUF file"));
    CHECK_THAT(refusal("GGML"), Contains("is not a GGUF file"));
    CHECK_THROWS_WITH(GgufFile("/no/such/file"), Contains("/no/such/file: cannot be opened"));
    CHECK_THROWS_WITH(GgufFile("/tmp"), Contains("not a regular file"));
}

TEST_CASE("a file cut anywhere is refused") {
    const std::string bytes = tiny_bytes();
    for (size_t n = 0; n < bytes.size(); n += n < 2000 ? 1 : 97) {
        INFO("cut to " << n);
        // The last tensor may be followed by padding, so a cut within the last 32 bytes may be harmless.
        if (n + 32 < bytes.size()) CHECK(refusal(bytes.substr(0, n)) != "opened");
    }
}

// A minimal file by hand: counts, one metadata entry, one tensor, 32 floats of data.
struct Minimal {
    uint64_t tensors = 1, entries = 1, key_length = 17, dimension = 32, offset = 0, name_length = 1;
    uint32_t kind = 4, alignment = 32, rank = 1, type = 0;
    size_t data = 128;
    std::string bytes() const {
        std::string s = "GGUF";
        auto put = [&](auto v) { s.append(reinterpret_cast<const char*>(&v), sizeof v); };
        put(uint32_t{3}), put(tensors), put(entries);
        put(key_length), s += "general.alignment", put(kind), put(alignment);
        put(name_length), s += "w", put(rank), put(dimension), put(type), put(offset);
        s.resize((s.size() + 31) / 32 * 32 + data);
        return s;
    }
};

TEST_CASE("counts, offsets and sizes are checked against the file") {
    CHECK(refusal(Minimal().bytes()) == "opened");
    auto with = [](auto change) {
        Minimal m;
        change(m);
        return refusal(m.bytes());
    };
    constexpr uint64_t huge = ~uint64_t{0};
    CHECK_THAT(with([](Minimal& m) { m.tensors = huge; }), Contains("tensors cannot fit"));
    CHECK_THAT(with([](Minimal& m) { m.entries = 1000; }), Contains("metadata entries cannot fit"));
    CHECK_THAT(with([](Minimal& m) { m.key_length = huge; }), Contains("ends inside a metadata key"));
    CHECK_THAT(with([](Minimal& m) { m.kind = 13; }), Contains("unknown value type 13"));
    CHECK_THAT(with([](Minimal& m) { m.alignment = 33; }), Contains("general.alignment: 33"));
    CHECK_THAT(with([](Minimal& m) { m.alignment = 0; }), Contains("general.alignment: 0"));
    CHECK_THAT(with([](Minimal& m) { m.rank = 5; }), Contains("tensor w: rank 5"));
    CHECK_THAT(with([](Minimal& m) { m.dimension = 0; }), Contains("tensor w: dimension 0 is 0"));
    CHECK_THAT(with([](Minimal& m) { m.dimension = huge; }), Contains("tensor w: dimension 0"));
    CHECK_THAT(with([](Minimal& m) { m.dimension = 1 << 20; }), Contains("more than the file's"));
    CHECK_THAT(with([](Minimal& m) { m.dimension = 40; }), Contains("past the end"));
    CHECK_THAT(with([](Minimal& m) { m.type = 99; }), Contains("tensor w: unknown ggml type 99"));
    CHECK_THAT(with([](Minimal& m) { m.type = 14; }), Contains("multiple of the 256-element block of Q6_K"));
    CHECK_THAT(with([](Minimal& m) { m.offset = 4; }), Contains("offset 4 is not a multiple of 32"));
    CHECK_THAT(with([](Minimal& m) { m.offset = 32; }), Contains("past the end"));
    CHECK_THAT(with([](Minimal& m) { m.offset = huge - 31; }), Contains("past the end"));
    CHECK_THAT(with([](Minimal& m) { m.data = 127; }), Contains("past the end"));
}

TEST_CASE("a tokenizer that the file does not describe is refused by its key") {
    CHECK_THROWS_WITH(tokenizer_from_gguf(GgufFile::from_memory(Minimal().bytes(), "f.gguf")),
                      Contains("f.gguf: the metadata key tokenizer.ggml.model is missing"));
    std::string bytes = tiny_bytes();
    size_t at = bytes.find("gpt2");
    bytes.replace(at, 4, "bert");
    CHECK_THROWS_WITH(tokenizer_from_gguf(GgufFile::from_memory(bytes, "f.gguf")),
                      Contains("tokenizer.ggml.model: \"bert\" is not supported"));
}

TEST_CASE("the real SmolLM2 file opens with its 272 tensors") {
    const std::string path = fp8rl::test::smollm2_path();
    if (path.empty()) {
        WARN("skipped: models/SmolLM2-135M-Instruct.gguf is not there (scripts/get_smollm2.sh fetches it)");
        return;
    }
    GgufFile f(path);
    CHECK(f.tensors().size() == 272);
    CHECK(f.integer("llama.block_count") == 30);
    CHECK(f.tensor("token_embd.weight").shape == std::vector<int64_t>{49152, 576});
    CHECK(f.tensor("blk.0.ffn_down.weight").shape == std::vector<int64_t>{576, 1536});
    double sum = 0;
    for (const GgufTensor& t : f.tensors()) {
        REQUIRE(GgufFile::can_dequantize(t.type));
        for (float x : f.dequantize(t.name)) sum += std::abs(x);
    }
    CHECK(std::isfinite(sum));
}
