// dist/launch: which rank this process is and which device it opens, read from the launcher's variables
// (srun, Open MPI's mpirun, or an MPI whose launcher speaks PMI). A pure function of an environment and a
// number of visible GPUs: testable without either, and it never waits for anybody. Refused (exit code 2):
// numbers that are missing, malformed or out of range; more tasks on a node than GPUs. Device numbers count
// inside the visible list (CUDA_VISIBLE_DEVICES), as CUDA itself counts.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace fp8rl::dist {

using Environment = std::map<std::string, std::string>;

// This process's own environment.
Environment environment();

struct Placement {
    int rank = 0;
    int world = 1;
    int local_rank = 0;
    int device = -1;                // index in the visible list; -1: CPU
    std::string launcher = "none";  // none | srun | mpirun | pmi
    std::string notice;             // for the log, "" when there is nothing to say

    bool on_cpu() const { return device < 0; }
};

// visible_gpus: what the device library counts; 0 places the process on the CPU.
Placement place(const Environment& environment, int visible_gpus);

// The number of entries CUDA would accept in CUDA_VISIBLE_DEVICES (indices or UUIDs; the list ends at the
// first invalid one); nothing when the variable is not set. For a dry run, where no device library is asked.
std::optional<int> listed_gpus(const Environment& environment);

// Training and sampling run in one process so far: refuses a larger world by name, on every rank.
void require_single_process(const Placement& placement);

}  // namespace fp8rl::dist
