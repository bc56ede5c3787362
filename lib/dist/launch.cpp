// dist/launch: see the header. Which launcher speaks, in this order:
//   Open MPI (OMPI_COMM_WORLD_*): before Slurm, because mpirun in a Slurm job starts its daemons by srun, and
//     their SLURM_PROCID counts daemons;
//   PMI with MPI_LOCALRANKID (MPICH, Intel MPI): before Slurm for the same reason;
//   Slurm (SLURM_PROCID in a step);
//   PMI alone.
// Slurm also sets SLURM_PROCID=0 in a batch script, where one process runs whatever SLURM_NTASKS says: a job
// id without a step id is no step.
#include "dist/launch.h"

#include <algorithm>
#include <cctype>
#include <climits>
#include <set>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/text.h"

extern char** environ;

namespace fp8rl::dist {
namespace {

const std::string* find(const Environment& env, const std::string& name) {
    auto it = env.find(name);
    return it == env.end() ? nullptr : &it->second;
}

// A whole number in [least, INT_MAX].
int number(const std::string& name, const std::string& value, int least) {
    long long n = 0;
    if (!text::parse(value, n) || n < least || n > INT_MAX)
        refuse("launch: ", name, "=", value, " is not a whole number of at least ", least);
    return static_cast<int>(n);
}

int number(const Environment& env, const std::string& name, int least) {
    const std::string* value = find(env, name);
    if (!value) refuse("launch: ", name, " is not set, but the launcher's other variables are");
    return number(name, *value, least);
}

// The first of the names that is set.
std::string first_of(const Environment& env, const std::vector<std::string>& names) {
    for (const auto& name : names)
        if (find(env, name)) return name;
    return names.back();
}

// Slurm's "4(x2),3": the count of node `index`, or -1 when the list ends before it.
int tasks_in_list(const std::string& name, const std::string& list, int index) {
    int node = 0;
    for (const auto& part : text::split(list, ',')) {
        std::string_view count = part, times = "1";
        if (size_t open = part.find("(x"); open != std::string::npos && part.back() == ')') {
            count = std::string_view(part).substr(0, open);
            times = std::string_view(part).substr(open + 2, part.size() - open - 3);
        }
        int n = number(name, std::string(count), 0), repeat = number(name, std::string(times), 1);
        if (index - node < repeat) return n;
        node += repeat;
    }
    return -1;
}

// How many tasks Slurm puts on this node. A list per node when there is one; else the tasks split over the
// nodes, of which there are at least node id + 1.
int slurm_tasks_here(const Environment& env, int world, int local) {
    int node = find(env, "SLURM_NODEID") ? number(env, "SLURM_NODEID", 0) : 0;
    for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})
        if (const std::string* list = find(env, name)) {
            // In a step that uses fewer tasks than the job, the job's list is too large, never too small.
            int n = std::min(tasks_in_list(name, *list, node), world);
            if (n > local) return n;
        }
    int nodes = node + 1;
    for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"})
        if (find(env, name)) {
            nodes = std::max(nodes, number(env, name, 1));
            break;
        }
    return std::max((world + nodes - 1) / nodes, local + 1);
}

struct Names {
    std::string launcher, rank, world, local;
};

Placement read(const Environment& env, const Names& names) {
    Placement p;
    p.launcher = names.launcher;
    p.world = number(env, names.world, 1);
    p.rank = number(env, names.rank, 0);
    if (p.rank >= p.world)
        refuse("launch: rank ", p.rank, " outside 0..", p.world - 1, " (", names.rank, "=", p.rank, ", ",
               names.world, "=", p.world, ")");
    p.local_rank = number(env, names.local, 0);
    if (p.local_rank >= p.world)
        refuse("launch: ", names.local, "=", p.local_rank, " outside 0..", p.world - 1);
    return p;
}

// One GPU per task, never two tasks quietly on one.
void choose_device(Placement& p, const Environment& env, int tasks_here, int gpus) {
    if (gpus == 0) return;
    if (gpus == 1 && tasks_here > 1 && find(env, "CUDA_VISIBLE_DEVICES")) {
        p.device = 0;
        p.notice = cat("one GPU is visible to each of ", tasks_here, " tasks on this node: device 0");
        return;
    }
    if (tasks_here > gpus)
        refuse("launch: ", tasks_here, " tasks on this node, ", gpus, gpus == 1 ? " GPU" : " GPUs", " (rank ",
               p.rank, " of ", p.world, "); start at most one task per GPU");
    p.device = p.local_rank;
}

bool slurm_step(const Environment& env) {
    bool in_job = find(env, "SLURM_JOB_ID") || find(env, "SLURM_JOBID");
    bool in_step = find(env, "SLURM_STEP_ID") || find(env, "SLURM_STEPID");
    return find(env, "SLURM_PROCID") && (in_step || !in_job);
}

}  // namespace

Environment environment() {
    Environment env;
    for (char** entry = environ; entry && *entry; ++entry) {
        std::string_view e = *entry;
        if (size_t equals = e.find('='); equals != std::string_view::npos)
            env.emplace(e.substr(0, equals), e.substr(equals + 1));
    }
    return env;
}

Placement place(const Environment& env, int gpus) {
    check(gpus >= 0, "launch: ", gpus, " visible GPUs");
    Placement p;
    int tasks_here = 1;
    if (find(env, "OMPI_COMM_WORLD_RANK")) {
        p = read(env,
                 {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"});
        tasks_here = find(env, "OMPI_COMM_WORLD_LOCAL_SIZE") ? number(env, "OMPI_COMM_WORLD_LOCAL_SIZE", 1)
                                                             : p.local_rank + 1;
    } else if (find(env, "PMI_RANK") && find(env, "MPI_LOCALRANKID")) {
        p = read(env, {"pmi", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"});
        tasks_here = find(env, "MPI_LOCALNRANKS") ? number(env, "MPI_LOCALNRANKS", 1) : p.local_rank + 1;
    } else if (slurm_step(env)) {
        p = read(env,
                 {"srun", "SLURM_PROCID",
                  first_of(env, {"SLURM_STEP_NUM_TASKS", "SLURM_NPROCS", "SLURM_NTASKS"}), "SLURM_LOCALID"});
        tasks_here = slurm_tasks_here(env, p.world, p.local_rank);
    } else if (find(env, "PMI_RANK")) {
        p.launcher = "pmi";
        p.world = number(env, "PMI_SIZE", 1);
        p.rank = number(env, "PMI_RANK", 0);
        if (p.rank >= p.world) refuse("launch: rank ", p.rank, " outside 0..", p.world - 1, " (PMI_RANK)");
        if (p.world > 1 && gpus > 0)
            refuse(
                "launch: PMI_RANK and PMI_SIZE are set, but no variable tells which tasks share this node ",
                "(MPI_LOCALRANKID); start by srun or Open MPI's mpirun, or use the CPU");
    } else if (find(env, "SLURM_JOB_ID") || find(env, "SLURM_JOBID")) {
        const std::string* tasks = find(env, "SLURM_NTASKS");
        p.notice = cat("inside a Slurm job", tasks ? cat(" of ", *tasks, " tasks") : std::string(),
                       ", but not started by srun: runs as 1 of 1");
    }
    choose_device(p, env, tasks_here, gpus);
    return p;
}

std::optional<int> listed_gpus(const Environment& env) {
    const std::string* list = find(env, "CUDA_VISIBLE_DEVICES");
    if (!list) return std::nullopt;
    std::set<std::string> seen;
    for (const auto& part : text::split(*list, ',')) {
        std::string entry(text::trim(part));
        bool index = !entry.empty() &&
                     std::all_of(entry.begin(), entry.end(), [](unsigned char c) { return std::isdigit(c); });
        bool uuid = entry.rfind("GPU-", 0) == 0 || entry.rfind("MIG-", 0) == 0;
        if (!index && !uuid) break;
        if (!seen.insert(entry).second) return 0;  // CUDA shows no device at all for a list with a repeat
    }
    return static_cast<int>(seen.size());
}

void require_single_process(const Placement& p) {
    if (p.world > 1)
        refuse("launch: ", p.world, " processes were started by ", p.launcher, " (this is rank ", p.rank,
               "), but this version runs on one process; start one");
}

}  // namespace fp8rl::dist
