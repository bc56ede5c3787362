// The claim a newcomer checks first: the shipped quickstart learns by GRPO in FP8 end to end, with each of
// three seeds, on problems that it never trained on, exact to the bit; and with shuffled rewards it does not.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "test.h"

namespace {

nlohmann::json quickstart(const std::string& arguments) {
    std::string folder = (std::filesystem::temp_directory_path() / "fp8rl_quickstart_XXXXXX").string();
    REQUIRE(mkdtemp(folder.data()));
    const std::string command =
        std::string(FP8RL_BINARY) + " train " + FP8RL_SOURCE_DIR +
        "/configs/quickstart.yaml --metrics json --overwrite --set checkpoint.dir=" + folder + " " +
        arguments + " >/dev/null";
    const int status = std::system(command.c_str());
    REQUIRE(WIFEXITED(status));
    REQUIRE(WEXITSTATUS(status) == 0);
    auto summary = nlohmann::json::parse(fp8rl::test::read_text(folder + "/summary.json"));
    std::filesystem::remove_all(folder);
    return summary;
}

}  // namespace

TEST_CASE("the quickstart learns with each of three seeds, and stays exact") {
    for (int seed : {1, 2, 3}) {
        const auto s = quickstart("--set seed=" + std::to_string(seed));
        INFO("seed " << seed << ": " << s.dump());
        const double first = s.at("validation/accuracy_first"), last = s.at("validation/accuracy_last");
        CHECK(last >= 0.9);
        CHECK(last - first >= 0.3);
        CHECK(s.at("mismatch/max_abs") == 0.0);
        CHECK(s.at("mismatch/tokens") > 100000);
    }
}

TEST_CASE("with shuffled rewards the quickstart does not learn") {
    const auto s = quickstart("--set task.shuffle_rewards=true --set train.steps=80");
    INFO(s.dump());
    CHECK(s.at("validation/accuracy_last").get<double>() <
          s.at("validation/accuracy_first").get<double>() + 0.1);
    CHECK(s.at("mismatch/max_abs") == 0.0);
}
