// Checkpoints under SIGKILL and on a full disk (f12's two real tests): a child process saves, the parent
// kills it, or the file system ends under it. What is left must resume from the last step whose save had
// returned, or one later.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "run/checkpoint.h"
#include "run/digest.h"
#include "support.h"

using namespace fp8rl;
using namespace fp8rl::run;
using namespace fp8rl::run::test;

namespace {

// One number that parent and child both see.
struct Shared {
    Shared()
        : value(new (::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))
                    std::atomic<int64_t>(0)) {}
    ~Shared() { ::munmap(value, 4096); }
    std::atomic<int64_t>* value;
};

int kill_at_once(pid_t pid) {
    ::kill(pid, SIGKILL);
    return wait_for(pid);
}

std::set<std::string> names_in(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
    return names;
}

}  // namespace

TEST_CASE("f12: after SIGKILL at 50 instants each resume starts at the last returned save, or one later") {
    TempFolder folder;
    Shared returned;
    auto begin = std::chrono::steady_clock::now();
    Checkpoints(folder.path(), 2).save(Small(1).data, true);
    // Up to three saves and the start of the child: instants all over a save, on a slow disk and a fast one.
    auto range = static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - begin)
            .count() *
        3);
    *returned.value = 1;
    int one_later = 0;
    uint64_t random = 12;
    for (int kill = 0; kill < 50; ++kill) {
        const int64_t before = *returned.value;
        pid_t child = start([&] {
            Checkpoints c(folder.path(), 2);
            for (int64_t step = c.find_resume().reader.step() + 1;; ++step) {
                c.save(Small(step).data, step % 3 == 0);
                *returned.value = step;
            }
            return 0;
        });
        random = xxh64(&random, sizeof random);
        std::this_thread::sleep_for(std::chrono::microseconds(random % (range + 2000)));
        REQUIRE(kill_at_once(child) == 1000 + SIGKILL);

        const int64_t last = *returned.value;
        Checkpoints c(folder.path(), 2);
        Checkpoints::Found found = c.find_resume();
        INFO("kill " << kill << ": last " << last << ", resumed from " << found.reader.step());
        for (const auto& m : found.messages) UNSCOPED_INFO(m);
        REQUIRE(last >= before);
        REQUIRE((found.reader.step() == last || found.reader.step() == last + 1));
        REQUIRE(found.messages.empty());
        REQUIRE(is_small(found.reader));
        if (c.best()) REQUIRE_NOTHROW(CheckpointReader(c.folder_of(*c.best())));
        one_later += found.reader.step() == last + 1;
        *returned.value = found.reader.step();
    }
    INFO("resumed one later: " << one_later);
    CHECK(*returned.value > 1);
}

TEST_CASE(
    "killed at each named point, the checkpoint is the old one before the rename and the new one after") {
    const std::pair<const char*, int64_t> points[] = {{"first_write", 1},
                                                      {"between_files", 1},
                                                      {"before_rename", 1},
                                                      {"after_rename", 2},
                                                      {"before_delete", 2}};
    for (auto [point, expected] : points) {
        INFO(point);
        TempFolder folder;
        Checkpoints(folder.path(), 1).save(Small(1).data);
        pid_t child = start([&, at = std::string(point)] {
            set_checkpoint_hook([&](const std::string& p) {
                if (p == at) ::kill(::getpid(), SIGKILL);
            });
            Checkpoints(folder.path(), 1).save(Small(2).data, true);
            return 0;
        });
        REQUIRE(wait_for(child) == 1000 + SIGKILL);
        Checkpoints c(folder.path(), 1);
        Checkpoints::Found found = c.find_resume();
        CHECK(found.reader.step() == expected);
        CHECK(is_small(found.reader));
        // What the dead process left behind goes with the next save.
        c.save(Small(3).data);
        std::set<std::string> expected_names{"step_3", "latest"};
        if (expected == 2) expected_names.insert({"step_2", "best"});
        CHECK(names_in(folder / "checkpoints") == expected_names);
    }
}

TEST_CASE("killed while a step is saved again, that step is still there") {
    for (const char* point : {"before_rename", "after_rename"}) {
        TempFolder folder;
        Checkpoints(folder.path(), 1).save(Small(1).data);
        pid_t child = start([&, at = std::string(point)] {
            set_checkpoint_hook([&](const std::string& p) {
                if (p == at) ::kill(::getpid(), SIGKILL);
            });
            Checkpoints(folder.path(), 1).save(Small(1).data);
            return 0;
        });
        REQUIRE(wait_for(child) == 1000 + SIGKILL);
        Checkpoints c(folder.path(), 1);
        CHECK(c.find_resume().reader.step() == 1);
    }
}

TEST_CASE("the test pause announces itself on stderr and holds the save at its point") {
    TempFolder folder;
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    pid_t child = start([&] {
        ::dup2(ends[1], STDERR_FILENO);
        ::setenv("FP8RL_TEST_PAUSE", "before_rename:20000", 1);
        Checkpoints(folder.path(), 1).save(Small(1).data);
        return 0;
    });
    ::close(ends[1]);
    char line[64] = {};
    CHECK(::read(ends[0], line, sizeof line - 1) > 0);
    CHECK(holds(line, "test pause at before_rename"));
    CHECK(Checkpoints(folder.path(), 1).steps().empty());
    CHECK(kill_at_once(child) == 1000 + SIGKILL);
    ::close(ends[0]);
    ::setenv("FP8RL_TEST_PAUSE", "before_rename", 1);
    CHECK(holds(refusal([&] { Checkpoints(folder.path(), 1).save(Small(1).data); }), "point:milliseconds"));
    ::unsetenv("FP8RL_TEST_PAUSE");
}

namespace {

// Saves step 1, which fits, then step 2, which does not; returns 0 when all that f12 asks for holds.
int save_until_full(const std::string& folder, int64_t rows) {
    Checkpoints c(folder, 1);
    c.save(Small(1, 64).data);
    std::string message;
    try {
        c.save(Small(2, rows).data, true);
    } catch (const Error& e) {
        if (e.exit_code() != 2) return 10;
        message = e.what();
    }
    std::fprintf(stdout, "refused with: %s\n", message.c_str());
    std::fflush(stdout);
    if (!holds(message, folder + "/checkpoints/step_2.tmp-")) return 11;
    if (!holds(message, "missing") || !holds(message, "was not saved")) return 12;
    if (names_in(folder + "/checkpoints") != std::set<std::string>{"step_1", "latest"}) return 13;
    if (c.best()) return 14;
    Checkpoints fresh(folder, 1);
    Checkpoints::Found found = fresh.find_resume();
    if (found.reader.step() != 1 || !is_small(found.reader, 64)) return 15;
    c.save(Small(3, 64).data);  // what fits is still saved afterwards, and only then is the old one removed
    return c.steps() == std::vector<int64_t>{3} ? 0 : 16;
}

}  // namespace

TEST_CASE("f12: a full disk is an error with path and missing bytes; the earlier checkpoint resumes") {
    TempFolder folder;
    pid_t child = start([&] {
        // A file system of 512 KiB in a mount namespace of this child's own; 77: not permitted here.
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=512k") != 0)
            return 77;
        return save_until_full(folder.path(), 20000);
    });
    int code = wait_for(child);
    if (code == 77)
        WARN("a small file system cannot be mounted here: only the file size limit is tested");
    else
        CHECK(code == 0);
}

TEST_CASE("a file that may not grow further is refused like a full disk") {
    TempFolder folder;
    pid_t child = start([&] {
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit limit{300000, 300000};
        if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
        return save_until_full(folder.path(), 20000);
    });
    CHECK(wait_for(child) == 0);
}
