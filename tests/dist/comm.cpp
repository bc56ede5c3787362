// Comm: the world of one, and real MPI: this program starts itself under mpirun with the hidden test case
// below, whose expected values each rank can work out alone. Without MPI the stub's refusal is tested
// instead.
#include "dist/comm.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "core/error.h"
#include "test.h"

using namespace fp8rl;
using namespace fp8rl::dist;

namespace {

std::span<std::byte> bytes_of(std::string& s) { return {reinterpret_cast<std::byte*>(s.data()), s.size()}; }

// A world whose other ranks said what we write down.
class ScriptedComm final : public Comm {
  public:
    std::vector<std::string> texts;
    int rank() const override { return 0; }
    int world() const override { return static_cast<int>(texts.size()); }
    void barrier() override {}
    void all_reduce_sum(std::span<float>) override {}
    void all_reduce_sum(std::span<double>) override {}
    void all_reduce_max(std::span<float>) override {}
    void broadcast(std::span<std::byte>, int) override {}
    std::vector<std::string> all_gather(const std::string&) override { return texts; }
};

int run_under_mpi(int ranks, const std::string& filter) {
    std::string self(4096, '\0');
    ssize_t n = ::readlink("/proc/self/exe", self.data(), self.size());
    REQUIRE(n > 0);
    self.resize(static_cast<size_t>(n));
    std::string command =
        "ASAN_OPTIONS=\"$ASAN_OPTIONS:detect_leaks=0\" OMPI_ALLOW_RUN_AS_ROOT=1 "
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 "
        "mpirun --oversubscribe -n " +
        std::to_string(ranks) + " " + self + " '" + filter + "' > /dev/null 2>&1";
    int status = std::system(command.c_str());
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("a world of one changes nothing and never starts MPI") {
    auto comm = make_comm(Placement{});
    CHECK(comm->rank() == 0);
    CHECK(comm->world() == 1);
    std::vector<float> x{1.5f, -2.0f};
    comm->all_reduce_sum(std::span<float>(x));
    comm->all_reduce_max(std::span<float>(x));
    comm->barrier();
    CHECK(x == std::vector<float>{1.5f, -2.0f});
    CHECK(comm->all_gather("a") == std::vector<std::string>{"a"});
    std::string text = "kept";
    comm->broadcast(bytes_of(text), 0);
    CHECK(text == "kept");
    CHECK_THROWS_AS(comm->broadcast(bytes_of(text), 1), Error);
}

TEST_CASE("two ranks on one GPU are refused with both ranks named") {
    ScriptedComm comm;
    comm.texts = {"host/GPU-1", "host/GPU-2", "other/GPU-1"};
    refuse_shared_devices(comm, comm.texts[0]);
    comm.texts = {"", ""};
    refuse_shared_devices(comm, "");
    comm.texts = {"GPU-1", "GPU-2", "GPU-1"};
    try {
        refuse_shared_devices(comm, "GPU-1");
        FAIL("not refused");
    } catch (const Error& e) {
        CHECK(std::string(e.what()).find("ranks 0 and 2 share one GPU (GPU-1)") != std::string::npos);
    }
}

TEST_CASE("MPI worlds of 2 and 3 agree on every operation; without MPI they are refused by name") {
    if (!have_mpi()) {
        Placement p;
        p.world = 2;
        p.launcher = "mpirun";
        CHECK_THROWS_WITH(make_comm(p), Catch::Contains("built without MPI"));
        return;
    }
    if (std::system("command -v mpirun > /dev/null 2>&1") != 0) {
        WARN("mpirun is not installed: MPI was not run");
        return;
    }
    CHECK(run_under_mpi(2, "[mpi-rank]") == 0);
    CHECK(run_under_mpi(3, "[mpi-rank]") == 0);
    CHECK(run_under_mpi(2, "[mpi-leaves]") != 0);
}

TEST_CASE("as one rank of an MPI world", "[.][mpi-rank]") {
    Placement p = place(environment(), 0);
    REQUIRE(p.world > 1);
    auto comm = make_comm(p);
    const int world = p.world;
    REQUIRE(comm->rank() == p.rank);
    REQUIRE(comm->world() == world);

    // ((1e8 + 3) + -1e8): in float 1e8 + 3 is 100000000 (its neighbours are 8 apart), so rank order gives 0
    // with three ranks, where another order gives 3. Every element of a ragged length, so slices differ.
    const float terms[] = {1e8f, 3.0f, -1e8f};
    for (size_t n : {size_t{0}, size_t{1}, size_t{2}, size_t{1000003}, size_t{2} * (1 << 20) + 1}) {
        std::vector<float> x(n, terms[p.rank]);
        comm->all_reduce_sum(std::span<float>(x));
        float expected = world == 2 ? 1e8f : 0.0f;
        size_t wrong = 0;
        for (float v : x) wrong += v != expected;
        REQUIRE(wrong == 0);
    }
    std::vector<double> d(7);
    for (size_t i = 0; i < d.size(); ++i) d[i] = static_cast<double>(i) + p.rank;
    comm->all_reduce_sum(std::span<double>(d));
    for (size_t i = 0; i < d.size(); ++i)
        REQUIRE(d[i] == static_cast<double>(i) * world + world * (world - 1) / 2.0);

    std::vector<float> m{static_cast<float>(p.rank), static_cast<float>(-p.rank), -1.0f};
    if (p.rank == 1) m[2] = std::numeric_limits<float>::quiet_NaN();
    comm->all_reduce_max(std::span<float>(m));
    REQUIRE(m[0] == static_cast<float>(world - 1));
    REQUIRE(m[1] == 0.0f);
    REQUIRE(std::isnan(m[2]));

    std::string text = p.rank == 1 ? "from one" : "........";
    comm->broadcast(bytes_of(text), 1);
    REQUIRE(text == "from one");

    std::vector<std::string> all = comm->all_gather(std::string(static_cast<size_t>(p.rank), 'x'));
    REQUIRE(all.size() == static_cast<size_t>(world));
    for (int r = 0; r < world; ++r) REQUIRE(all[static_cast<size_t>(r)].size() == static_cast<size_t>(r));
    comm->barrier();
}

// One rank fails while the other waits for it in a collective: the job ends instead of hanging.
TEST_CASE("as one rank of a world whose first rank fails", "[.][mpi-leaves]") {
    Placement p = place(environment(), 0);
    bool failed = false;
    try {
        auto comm = make_comm(p);
        if (p.rank == 0) refuse("this rank fails");
        comm->barrier();
    } catch (const Error&) {
        failed = true;
    }
    REQUIRE(!failed);
}
