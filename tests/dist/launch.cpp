// Placement from the launcher's variables: field case f14 as it is, then what it leaves open (Open MPI, PMI,
// batch scripts, lists of tasks per node, malformed numbers). No device and no launcher is needed.
#include "dist/launch.h"

#include "core/error.h"
#include "test.h"

using namespace fp8rl;
using namespace fp8rl::dist;

namespace {

// Kept: a loop over a temporary's member would outlive the temporary.
const nlohmann::json& cases() {
    static const nlohmann::json file = test::read_json("f14_srun_env.json");
    return file.at("cases");
}

const nlohmann::json& named(const std::string& name) {
    for (const auto& c : cases())
        if (c["name"] == name) return c;
    throw std::runtime_error("f14 has no case " + name);
}

Environment env_of(const nlohmann::json& j) {
    Environment env;
    for (const auto& [key, value] : j.items()) env[key] = value.get<std::string>();
    return env;
}

std::string refusal(const Environment& env, int gpus) {
    try {
        place(env, gpus);
    } catch (const Error& e) {
        CHECK(e.fault() == Fault::user);
        return e.what();
    }
    return "";
}

bool holds(const std::string& s, const std::string& part) { return s.find(part) != std::string::npos; }

Environment step(int rank, int world, int local, std::map<std::string, std::string> more = {}) {
    more["SLURM_JOB_ID"] = "9";
    more["SLURM_STEP_ID"] = "0";
    more["SLURM_PROCID"] = std::to_string(rank);
    more["SLURM_NTASKS"] = std::to_string(world);
    more["SLURM_LOCALID"] = std::to_string(local);
    return more;
}

}  // namespace

TEST_CASE("f14: each environment gives the rank and device of the field case") {
    int compared = 0;
    for (const auto& c : cases()) {
        if (!c["expect"].is_array()) continue;
        INFO(c["name"]);
        REQUIRE(c["env"].size() == c["expect"].size());
        for (size_t i = 0; i < c["env"].size(); ++i) {
            Environment env = env_of(c["env"][i]);
            Placement p = place(env, c["visible_count"]);
            CHECK(p.rank == c["expect"][i]["rank"]);
            CHECK(p.device == c["expect"][i]["device"]);
            CHECK(p.world == std::stoi(env["SLURM_NTASKS"]));
            CHECK(p.launcher == "srun");
            CHECK(listed_gpus(env) == std::optional<int>(c["visible_count"].get<int>()));
            ++compared;
        }
    }
    CHECK(compared == 12);
}

TEST_CASE("f14: more tasks than GPUs are refused on every rank of the node") {
    const nlohmann::json& c = named("more_tasks_than_gpus");
    Environment env = env_of(c["env"][0]);
    for (int rank = 0; rank < 8; ++rank) {
        env["SLURM_PROCID"] = env["SLURM_LOCALID"] = std::to_string(rank);
        std::string message = refusal(env, c["visible_count"]);
        CHECK(holds(message, "8 tasks on this node, 4 GPUs"));
        CHECK(holds(message, "rank " + std::to_string(rank) + " of 8"));
    }
    CHECK(place(env, 0).on_cpu());
}

TEST_CASE("f14: without a launcher this is rank 0 of 1 on the CPU") {
    Placement p = place(env_of(named("no_slurm")["env"][0]), named("no_slurm")["visible_count"]);
    CHECK(p.rank == 0);
    CHECK(p.world == 1);
    CHECK(p.on_cpu());
    CHECK(p.notice.empty());
    CHECK(p.launcher == "none");
    CHECK(place({}, 4).device == 0);
    CHECK(!listed_gpus({}));
}

TEST_CASE("f14: a process started by hand inside a job runs alone, with a notice") {
    Placement p = place(env_of(named("job_env_but_one_process")["env"][0]), 0);
    CHECK(p.rank == 0);
    CHECK(p.world == 1);
    CHECK(holds(p.notice, "Slurm job of 4 tasks"));
    CHECK(holds(p.notice, "1 of 1"));
}

TEST_CASE("f14: a rank outside the world is refused") {
    CHECK(holds(refusal(env_of(named("bad_number")["env"][0]), 0), "rank 4 outside 0..3"));
}

TEST_CASE("a batch script has SLURM_PROCID but is no step: it runs alone") {
    Environment env = step(0, 4, 0);
    env.erase("SLURM_STEP_ID");
    Placement p = place(env, 4);
    CHECK(p.world == 1);
    CHECK(p.device == 0);
    CHECK(!p.notice.empty());
}

TEST_CASE("the tasks of this node are read from Slurm's list") {
    // 3 tasks on nodes 0 and 1, 1 on node 2; 2 GPUs each.
    Environment env = step(6, 7, 0, {{"SLURM_NODEID", "2"}, {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"}});
    CHECK(place(env, 2).device == 0);
    env = step(3, 7, 0, {{"SLURM_NODEID", "1"}, {"SLURM_STEP_TASKS_PER_NODE", "3(x2),1"}});
    CHECK(holds(refusal(env, 2), "3 tasks on this node, 2 GPUs"));
    // 8 tasks over 2 nodes of 4 GPUs: known from the number of nodes, also on node 0.
    CHECK(place(step(0, 8, 0, {{"SLURM_NODEID", "0"}, {"SLURM_NNODES", "2"}}), 4).device == 0);
    env["SLURM_STEP_TASKS_PER_NODE"] = "3(x";
    CHECK(holds(refusal(env, 2), "SLURM_STEP_TASKS_PER_NODE=3(x"));
}

TEST_CASE("a step smaller than its job counts its own tasks") {
    Environment env =
        step(1, 8, 1, {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_NODEID", "0"}, {"SLURM_NNODES", "1"}});
    Placement p = place(env, 2);
    CHECK(p.world == 2);
    CHECK(p.device == 1);
}

TEST_CASE("one GPU for several tasks is refused unless a list gave each task its own") {
    CHECK(holds(refusal(step(1, 2, 1, {{"SLURM_NNODES", "1"}}), 1), "2 tasks on this node, 1 GPU "));
    Placement p = place(step(1, 2, 1, {{"SLURM_NNODES", "1"}, {"CUDA_VISIBLE_DEVICES", "0"}}), 1);
    CHECK(p.device == 0);
    CHECK(!p.notice.empty());
}

TEST_CASE("Open MPI's variables win over those that Slurm gave to mpirun's daemons") {
    Environment env = step(0, 2, 0);
    env["OMPI_COMM_WORLD_RANK"] = "5";
    env["OMPI_COMM_WORLD_SIZE"] = "8";
    env["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
    env["OMPI_COMM_WORLD_LOCAL_SIZE"] = "4";
    Placement p = place(env, 4);
    CHECK(p.rank == 5);
    CHECK(p.world == 8);
    CHECK(p.device == 1);
    CHECK(p.launcher == "mpirun");
    CHECK(holds(refusal(env, 3), "4 tasks on this node, 3 GPUs"));
}

TEST_CASE("PMI is read with its local rank, and refused for GPUs without") {
    Environment env{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
    Placement p = place(env, 2);
    CHECK(p.rank == 3);
    CHECK(p.device == 1);
    env.erase("MPI_LOCALRANKID");
    CHECK(place(env, 0).rank == 3);
    CHECK(holds(refusal(env, 2), "MPI_LOCALRANKID"));
}

TEST_CASE("numbers that are missing or malformed are refused with the variable and its value") {
    for (const char* bad : {"", "x", "-1", "1.5", "99999999999", "2 "}) {
        Environment env = step(0, 4, 0);
        env["SLURM_PROCID"] = bad;
        CHECK(holds(refusal(env, 0), std::string("SLURM_PROCID=") + bad));
    }
    Environment env = step(0, 4, 0);
    env["SLURM_NTASKS"] = "0";
    CHECK(holds(refusal(env, 0), "SLURM_NTASKS=0"));
    env = step(0, 4, 0);
    env.erase("SLURM_LOCALID");
    CHECK(holds(refusal(env, 0), "SLURM_LOCALID is not set"));
    env = step(0, 4, 4);
    CHECK(holds(refusal(env, 0), "SLURM_LOCALID=4 outside 0..3"));
}

TEST_CASE("the visible list is counted as CUDA counts it") {
    auto count = [](const char* list) { return *listed_gpus({{"CUDA_VISIBLE_DEVICES", list}}); };
    CHECK(count("") == 0);
    CHECK(count("-1") == 0);
    CHECK(count("0,1,2") == 3);
    CHECK(count("2,3") == 2);
    CHECK(count("0,-1,1") == 1);
    CHECK(count("0,0") == 0);
    CHECK(count("GPU-1a,MIG-2b") == 2);
    CHECK(count("NoDevFiles") == 0);
}

TEST_CASE("several processes are refused by name until training uses them") {
    Placement p = place(step(2, 4, 2), 0);
    try {
        require_single_process(p);
        FAIL("not refused");
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        CHECK(holds(e.what(), "4 processes were started by srun (this is rank 2)"));
    }
    require_single_process(place({}, 0));
}

TEST_CASE("this process's environment is seen") {
    ::setenv("FP8RL_LAUNCH_TEST", "a=b", 1);
    CHECK(environment().at("FP8RL_LAUNCH_TEST") == "a=b");
    ::unsetenv("FP8RL_LAUNCH_TEST");
}
