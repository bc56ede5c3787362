// dist/comm: the world of one, and checks that every kind of world shares.
#include "dist/comm.h"

#include "core/error.h"

namespace fp8rl::dist {

void LocalComm::broadcast(std::span<std::byte>, int root) {
    check(root == 0, "comm: broadcast from rank ", root, " of a world of 1");
}

void refuse_shared_devices(Comm& comm, const std::string& device) {
    std::vector<std::string> all = comm.all_gather(device);
    for (size_t a = 0; a < all.size(); ++a)
        for (size_t b = a + 1; b < all.size(); ++b)
            if (!all[a].empty() && all[a] == all[b])
                refuse("launch: ranks ", a, " and ", b, " share one GPU (", all[a],
                       "); give each task its own, for example srun --gpus-per-task=1");
}

}  // namespace fp8rl::dist
