// The published model, where scripts/get_smollm2.sh has fetched it.
#include <filesystem>

#include "e2e/lab.h"

namespace fp8rl::test {

TEST_CASE("SmolLM2-135M-Instruct adds two and three, and its file is described") {
    const std::string model = std::string(FP8RL_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.gguf";
    if (!std::filesystem::exists(model)) {
        WARN("models/SmolLM2-135M-Instruct.gguf is not there (scripts/get_smollm2.sh): not tested");
        return;
    }
    Result info = run({"info", model});
    REQUIRE(info.code == 0);
    CHECK(info.out.find("134515008") != std::string::npos);
    CHECK(info.out.find("30 layers, hidden 576") != std::string::npos);
    Options o;
    o.seconds = 120;
    for (const char* precision : {"bf16", "blockwise"}) {
        INFO(precision);
        Result r = run({"generate", model, "--precision", precision, "-t", "0", "--max-new-tokens", "24",
                        "-p", "What is 2+3?"},
                       o);
        INFO(r.err << r.out);
        REQUIRE(r.code == 0);
        CHECK(r.out.find('5') != std::string::npos);
    }
}

}  // namespace fp8rl::test
