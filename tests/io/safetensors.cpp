// safetensors: field case f10, files written here and read back, and bad headers.
#include "io/safetensors.h"

#include <bit>
#include <cstring>

#include "contains.h"
#include "core/error.h"
#include "scratch.h"
#include "test.h"

using namespace fp8rl;
using fp8rl::test::Contains;
using fp8rl::test::read_json;
using fp8rl::test::read_text;
using fp8rl::test::Scratch;

static std::string from_hex(const std::string& hex) {
    std::string out;
    for (size_t i = 0; i + 1 < hex.size(); i += 2)
        out += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
    return out;
}

static std::string with_header(const std::string& header, const std::string& data) {
    uint64_t n = header.size();
    return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

static std::string refusal(const std::string& bytes) {
    try {
        SafetensorsFile::from_memory(bytes, "f.safetensors");
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        CHECK_THAT(e.what(), Contains("f.safetensors"));
        return e.what();
    }
    return "loads";
}

static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

TEST_CASE("f10: three files load with their values, the others are refused with the file's name") {
    auto f = read_json("f10_shards.json");
    for (auto& [name, hex] : f["files_hex"].items()) {
        INFO(name);
        const std::string result = refusal(from_hex(hex.get<std::string>()));
        if (f["expect"][name] == "loads")
            CHECK(result == "loads");
        else
            CHECK(result != "loads");
    }
    for (const char* name : {"good", "good_odd_header_length"}) {
        auto file = SafetensorsFile::from_memory(from_hex(f["files_hex"][name].get<std::string>()), name);
        CHECK(file.floats(file.tensor("a")) == f["values"][name]["a"].get<std::vector<float>>());
    }
    auto mix =
        SafetensorsFile::from_memory(from_hex(f["files_hex"]["bf16_f8_f32_mix"].get<std::string>()), "mix");
    CHECK(mix.floats(mix.tensor("n")) == f["values"]["bf16_f8_f32_mix"]["n"].get<std::vector<float>>());
    const SafeTensor& w = mix.tensor("w");
    CHECK(w.dtype == DType::e4m3);
    CHECK(w.shape == std::vector<int64_t>{2, 2});
    float scale = 0;
    mix.copy(mix.tensor("w_scale_inv"), DType::f32, &scale, 4);
    // E4M3 by hand: sign, 4 bits of exponent with bias 7, 3 bits of mantissa; exponent 0 is subnormal.
    auto expected = f["values"]["bf16_f8_f32_mix"]["w_decoded_times_scale"];
    for (size_t i = 0; i < 4; ++i) {
        int c = mix.bytes(w)[i], e = c >> 3 & 15, m = c & 7;
        double x = e ? std::ldexp(8 + m, e - 10) : std::ldexp(m, -9);
        CHECK((c & 128 ? -x : x) * scale == expected[i / 2][i % 2].get<double>());
    }
    CHECK_THROWS_WITH(mix.floats(w), Contains("tensor w: F8_E4M3 where F32, BF16 or F16 is needed"));
    CHECK_THROWS_WITH(mix.tensor("zz"), Contains("the tensor zz is missing"));
}

TEST_CASE("f10: refusals name the tensor where there is one") {
    auto f = read_json("f10_shards.json");
    auto of = [&](const char* name) { return refusal(from_hex(f["files_hex"][name].get<std::string>())); };
    CHECK_THAT(of("data_cut_by_3"), Contains("tensor a") && Contains("cut short by 3"));
    CHECK_THAT(of("trailing_junk"), Contains("5 bytes after the last tensor"));
    CHECK_THAT(of("offset_size_disagrees_with_shape"), Contains("tensor a: 8 bytes of data"));
    CHECK_THAT(of("overlap"), Contains("tensor b overlaps"));
    CHECK_THAT(of("hole"), Contains("a hole of 4 bytes before tensor a"));
    CHECK_THAT(of("unknown_dtype"), Contains("a.dtype: \"Q9\" is not supported"));
    CHECK_THAT(of("header_length_absurd"), Contains("at most 100000000 are allowed"));
}

TEST_CASE("headers that lie are refused") {
    CHECK_THAT(refusal(with_header("[]", "")), Contains("does not begin with {"));
    CHECK_THAT(refusal(with_header("{", "")), Contains("not JSON"));
    CHECK_THAT(refusal(with_header(R"({"a": 5})", "")), Contains("an object is needed"));
    CHECK_THAT(refusal(with_header(R"({"a": {"dtype": "F32", "shape": [1]}})", "")),
               Contains("\"data_offsets\" is missing"));
    CHECK_THAT(
        refusal(with_header(R"({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}})", "1234")),
        Contains("is negative"));
    CHECK_THAT(
        refusal(with_header(
            R"({"a": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 0]}})", "")),
        Contains("the shape overflows"));
    CHECK_THAT(
        refusal(with_header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 0]}})", "1234")),
        Contains("is no range"));
    CHECK_THAT(
        refusal(with_header(R"({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 8]}})", "1234")),
        Contains("two numbers are needed"));
    CHECK_THAT(refusal(with_header(R"({"__metadata__": {"k": 1}})", "")),
               Contains("__metadata__.k: a string is needed"));
    CHECK_THAT(refusal(with_header(R"({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
        "a": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}})",
                                   "12")),
               Contains("stands there twice"));
    CHECK(refusal(with_header("{}", "")) == "loads");
    CHECK(refusal(with_header(R"({"z": {"dtype": "F32", "shape": [0, 3], "data_offsets": [0, 0]}})", "")) ==
          "loads");
    CHECK(refusal(with_header(R"({"s": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]}})", "1234")) ==
          "loads");
}

TEST_CASE("what is written reads back, with metadata, in the layout of the format") {
    Scratch folder;
    const std::string path = folder.path("a.safetensors");
    std::vector<float> x{1.5f, -2.0f, 3.25f};
    std::vector<uint16_t> b{0x3FC0, 0xC000};
    std::vector<uint8_t> codes{1, 2, 3, 4, 5};
    std::vector<int64_t> step{-9};
    std::vector<TensorSource> sources = {{"layer.x", DType::f32, {3}, x.data()},
                                         {"codes", DType::e4m3, {5, 1}, codes.data()},
                                         {"b", DType::bf16, {1, 2}, b.data()},
                                         {"none", DType::f32, {0}, nullptr},
                                         {"step", DType::i64, {}, step.data()}};
    uint64_t written = write_safetensors(path, sources, {{"format", "pt"}, {"k", "\"quoted\""}}, true);
    const std::string bytes = read_text(path);
    CHECK(written == bytes.size());
    uint64_t header;
    std::memcpy(&header, bytes.data(), 8);
    CHECK(header % 8 == 0);
    CHECK(bytes.size() == 8 + header + 12 + 5 + 4 + 0 + 8);
    auto json = nlohmann::json::parse(bytes.substr(8, header));
    CHECK(json["codes"]["dtype"] == "F8_E4M3");
    CHECK(json["b"]["data_offsets"] == std::vector<int>{17, 21});

    SafetensorsFile f(path);
    CHECK(f.metadata() == Metadata{{"format", "pt"}, {"k", "\"quoted\""}});
    CHECK(f.tensors().size() == 5);
    CHECK(f.floats(f.tensor("layer.x")) == x);
    CHECK(f.floats(f.tensor("b")) == std::vector<float>{1.5f, -2.0f});
    int64_t back = 0;
    f.copy(f.tensor("step"), DType::i64, &back, 8);
    CHECK(back == -9);
    f.copy(f.tensor("none"), DType::f32, nullptr, 0);
    CHECK(std::memcmp(f.bytes(f.tensor("codes")).data(), codes.data(), 5) == 0);
    CHECK_THROWS_WITH(f.copy(f.tensor("b"), DType::f32, &back, 4),
                      Contains("tensor b: 4 bytes of BF16, needed are 4 of F32"));
    CHECK_THROWS_WITH(f.copy(f.tensor("b"), DType::bf16, &back, 8), Contains("needed are 8"));
}

TEST_CASE("half floats are widened exactly") {
    // IEEE half by hand: 1.5, smallest subnormal 2^-24, largest 65504, -Inf, -0.
    std::string data("\x00\x3E\x01\x00\xFF\x7B\x00\xFC\x00\x80", 10);
    auto f = SafetensorsFile::from_memory(
        with_header(R"({"h": {"dtype": "F16", "shape": [5], "data_offsets": [0, 10]}})", data), "h");
    auto x = f.floats(f.tensor("h"));
    CHECK(x[0] == 1.5f);
    CHECK(x[1] == std::ldexp(1.0f, -24));
    CHECK(x[2] == 65504.0f);
    CHECK((std::isinf(x[3]) && x[3] < 0));
    CHECK(std::bit_cast<uint32_t>(x[4]) == 0x80000000u);
}

TEST_CASE("a full disk while writing is an error with the path") {
    if (!std::ifstream("/dev/full").good()) return;
    float x = 1;
    std::vector<TensorSource> one = {{"x", DType::f32, {1}, &x}};
    CHECK_THROWS_WITH(write_safetensors("/dev/full", one, {}, true),
                      Contains("/dev/full: write failed: No space left"));
    std::vector<TensorSource> twice = {one[0], one[0]};
    Scratch folder;
    CHECK_THROWS_AS(write_safetensors(folder.path("t"), twice, {}, false), Error);
}

// Shards of one float tensor for each name.
static std::string shard_of(const std::vector<std::string>& names) {
    std::string header = "{", data;
    for (const std::string& n : names) {
        header += (data.empty() ? "\"" : ", \"") + n +
                  R"(": {"dtype": "U8", "shape": [1], "data_offsets": [)" + std::to_string(data.size()) +
                  ", " + std::to_string(data.size() + 1) + "]}";
        data += 'x';
    }
    return with_header(header + "}", data);
}

TEST_CASE("f10: a shard index is believed only as far as its shards bear it out") {
    const auto f10 = read_json("f10_shards.json");
    REQUIRE(f10["index_cases"].size() == 4);
    for (const auto& c : f10["index_cases"]) {
        const auto name = c["name"].get<std::string>();
        INFO(name);
        Scratch folder;
        if (name == "needed_tensor_missing_everywhere") {
            put(folder.path("model.safetensors"), shard_of(c["present"].get<std::vector<std::string>>()));
            SafetensorsFolder f(folder.path(""));
            CHECK_THROWS_WITH(f.require(c["needed"].get<std::vector<std::string>>()), Contains("lm_head"));
            CHECK_THROWS_WITH(f.tensor("lm_head"), Contains("the tensor lm_head is in no file"));
            f.require({"a"});
            continue;
        }
        put(folder.path("model.safetensors.index.json"),
            nlohmann::json{{"weight_map", c["weight_map"]}}.dump());
        if (c.contains("present_tensors")) {
            for (auto& [shard, names] : c["present_tensors"].items())
                put(folder.path(shard), shard_of(names.get<std::vector<std::string>>()));
        } else {
            for (const auto& shard : c["present"])
                put(folder.path(shard.get<std::string>()), shard_of({"a"}));
        }
        if (name == "shard_missing")
            CHECK_THROWS_WITH(SafetensorsFolder(folder.path("")), Contains("m-2-of-2"));
        else if (name == "tensor_missing_in_shard")
            CHECK_THROWS_WITH(SafetensorsFolder(folder.path("")), Contains("zz") && Contains("m-1-of-1"));
        else {
            REQUIRE(name == "stray_file_not_in_index");
            put(folder.path("old-copy"), "not even a safetensors file");
            SafetensorsFolder f(folder.path(""));
            CHECK(f.names() == std::vector<std::string>{"a"});
            CHECK(f.find("a")->tensor->bytes == 1);
        }
    }
    Scratch folder;
    CHECK_THROWS_WITH(SafetensorsFolder(folder.path("")), Contains("holds neither model.safetensors nor"));
    put(folder.path("model.safetensors.index.json"), R"({"weight_map": {"a": "../x"}})");
    CHECK_THROWS_WITH(SafetensorsFolder(folder.path("")),
                      Contains("is not the name of a file in this folder"));
    put(folder.path("model.safetensors.index.json"), R"({"weight_map": {"a": "s1", "b": "s2"}})");
    put(folder.path("s1"), shard_of({"a", "b"}));
    put(folder.path("s2"), shard_of({"b"}));
    CHECK_THROWS_WITH(SafetensorsFolder(folder.path("")), Contains("tensor b is in two files"));
}
