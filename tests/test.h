// What every test file includes: Catch2 in either version, and where the test data lies.
#pragma once
#ifdef FP8RL_CATCH3
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace fp8rl::test {

inline std::string data_path(const std::string& name) { return std::string(FP8RL_TEST_DATA) + "/" + name; }

inline std::string read_text(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    REQUIRE(in.good());
    std::stringstream s;
    s << in.rdbuf();
    return s.str();
}

inline nlohmann::json read_json(const std::string& name) {
    return nlohmann::json::parse(read_text(data_path(name)));
}

}  // namespace fp8rl::test
