// dist/no_mpi: the stub linked where MPI was not found (dist/mpi_comm.cpp is its counterpart). A world of one
// works; a larger one is refused by name.
#ifndef FP8RL_HAVE_MPI
#include "core/error.h"
#include "dist/comm.h"

namespace fp8rl::dist {

bool have_mpi() { return false; }

std::unique_ptr<Comm> make_comm(const Placement& p) {
    if (p.world > 1)
        refuse("launch: rank ", p.rank, " of ", p.world, " was started by ", p.launcher,
               ", but this program was built without MPI; install an MPI and build again with FP8RL_MPI=ON");
    return std::make_unique<LocalComm>();
}

}  // namespace fp8rl::dist
#endif
