// f14: where a launcher puts this process, by a dry run of the program under fake environments.
#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

Result dry_run(const Lab& lab, const std::vector<std::pair<std::string, std::string>>& env) {
    Options o;
    o.env = env;
    o.seconds = 10;
    o.folder = lab.scratch().path();
    return run({"train", lab.recipe(), "--dry-run"}, o);
}

}  // namespace

TEST_CASE("f14: rank, world and device of every case, or a refusal that says why") {
    Lab lab;
    const auto cases = read_json("f14_srun_env.json").at("cases");
    REQUIRE(cases.size() == 10);
    for (const auto& c : cases) {
        const std::string name = c.at("name");
        INFO(name);
        const auto& expect = c.at("expect");
        for (size_t i = 0; i < c.at("env").size(); ++i) {
            std::vector<std::pair<std::string, std::string>> env;
            for (const auto& [key, value] : c.at("env")[i].items()) env.emplace_back(key, value);
            Result r = dry_run(lab, env);
            INFO(r.err);
            if (expect.is_array()) {
                REQUIRE(r.code == 0);
                auto line = json_lines(r.out).at(0);
                CHECK(line.at("rank") == expect[i].at("rank"));
                CHECK(line.at("device") == expect[i].at("device"));
                const auto& tasks = c.at("env")[i];
                CHECK(std::to_string(line.at("world").get<int>()) ==
                      tasks.at("SLURM_NTASKS").get<std::string>());
            } else if (name == "no_slurm" || name == "job_env_but_one_process") {
                REQUIRE(r.code == 0);
                auto line = json_lines(r.out).at(0);
                CHECK(line.at("rank") == 0);
                CHECK(line.at("world") == 1);
                CHECK(line.at("device") == "cpu");
                CHECK(r.said("not started by srun") == (name != "no_slurm"));
            } else {
                CHECK(r.code == 2);
                CHECK(r.out.empty());
                CHECK(r.said(name == "bad_number" ? "rank 4 outside 0..3" : "8 tasks on this node, 4 GPUs"));
            }
        }
    }
    CHECK_FALSE(lab.has("runs", ""));
}

TEST_CASE("several processes are refused by name before anything is written") {
    Lab lab;
    Options o;
    o.env = {{"SLURM_JOB_ID", "1"},
             {"SLURM_STEP_ID", "0"},
             {"SLURM_PROCID", "1"},
             {"SLURM_LOCALID", "1"},
             {"SLURM_NTASKS", "2"}};
    Result r = lab.train("run", {}, {}, o);
    CHECK(r.code == 2);
    CHECK(r.said("2 processes were started by srun (this is rank 1)"));
    CHECK_FALSE(lab.has("run", ""));
}

}  // namespace fp8rl::test
