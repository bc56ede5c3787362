// JSON lines from any bytes: refused, or each value is written and read back as the same value.
#include "expect_refusal.h"
#include "io/jsonl.h"

using namespace fp8rl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::expect_refusal([&] {
        for_each_json_line(
            std::string_view(reinterpret_cast<const char*>(data), size), "fuzz", [](Json&& value, int64_t) {
                fuzz::require(Json::parse(value.dump(), "again") == value, "dump reads back");
                fuzz::require(Json::parse(value.dump(1), "again") == value, "dump(1) reads back");
                fuzz::expect_refusal([&] { value.at("reward").as_number(); });
            });
    });
    return 0;
}
