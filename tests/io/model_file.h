// Where the real SmolLM2 file lies, for the tests that want it (scripts/get_smollm2.sh fetches it).
#pragma once
#include <cstdlib>
#include <fstream>
#include <string>

namespace fp8rl::test {

// "" when it is not there.
inline std::string smollm2_path() {
    const char* given = std::getenv("FP8RL_SMOLLM2");
    std::string path = given ? given : FP8RL_SOURCE_DIR "/models/SmolLM2-135M-Instruct.gguf";
    return std::ifstream(path).good() ? path : "";
}

}  // namespace fp8rl::test
