// SIGKILL and full disks: a checkpoint is whole or it is not there, and a run that resumes ends like one that
// was left alone.
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <thread>

#include "e2e/lab.h"

namespace fp8rl::test {
namespace {

// The step that a resumed process says it goes on from.
std::optional<int64_t> resumed_from(const Result& r) {
    const std::string mark = "/checkpoints/step_";
    size_t at = r.err.find("resumed from ");
    if (at == std::string::npos) return std::nullopt;
    return std::stoll(r.err.substr(r.err.find(mark, at) + mark.size()));
}

int64_t steps_printed(const Result& r) {
    // The last line may be half there.
    const size_t end = r.out.rfind('\n');
    if (end == std::string::npos) return 0;
    return json_lines(r.out.substr(0, end)).back().at("step").get<int64_t>();
}

// Some temporary folder, or none, may be left; whatever bears a final name is whole.
void check_no_half_checkpoint(const Lab& lab, const std::string& name) {
    const std::string folder = lab.folder(name) + "/checkpoints";
    if (!std::filesystem::exists(folder)) return;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        const std::string step = entry.path().filename().string();
        if (step.rfind("step_", 0) != 0 || step.find(".tmp-") != std::string::npos) continue;
        Result r = run({"eval", lab.recipe(), "--set", "checkpoint.dir=" + lab.folder(name), "--checkpoint",
                        entry.path().string()});
        INFO(r.err);
        CHECK(r.code == 0);
    }
}

}  // namespace

TEST_CASE("killed at every point of a save and at other instants, a resumed run ends with the same bytes") {
    Lab lab;
    const Strings sets = {"checkpoint.every=1", "checkpoint.keep=1", "warmup.steps=14",
                          "algorithm.entropy=0.01"};
    lab.trained("whole", sets);

    // The first kill comes when some checkpoints are there.
    {
        Process p(lab.arguments("run", sets));
        REQUIRE(p.wait_for_out("\"step\": 4,"));
        p.send(SIGKILL);
        CHECK(p.finish().signal == SIGKILL);
    }
    int64_t at_least = 3;  // step 4's line is written before its save
    auto check_resumed = [&](const Result& r) {
        INFO(r.err);
        auto from = resumed_from(r);
        REQUIRE(from);
        CHECK(*from >= at_least);
        at_least = *from;
    };
    int kills = 1, in_save = 0;
    for (int round = 0; round < 2; ++round)
        for (const char* point :
             {"first_write", "between_files", "before_rename", "after_rename", "before_delete"}) {
            INFO(point);
            Options pause;
            pause.env = {{"FP8RL_TEST_PAUSE", std::string(point) + ":60000"}};
            Process p(lab.arguments("run", sets, {"--resume"}), pause);
            REQUIRE(p.wait_for_err("test pause at " + std::string(point)));
            p.send(SIGKILL);
            Result r = p.finish();
            CHECK(r.signal == SIGKILL);
            check_resumed(r);
            const bool in_place =
                point == std::string("after_rename") || point == std::string("before_delete");
            // The save of the step after the one it resumed from was under way.
            at_least += in_place ? 1 : 0;
            check_no_half_checkpoint(lab, "run");
            ++kills, ++in_save;
            // A kill outside of a known place, a little later each time.
            if (round == 1) continue;
            Process q(lab.arguments("run", sets, {"--resume"}));
            REQUIRE(q.wait_for_err("resumed from"));
            std::this_thread::sleep_for(std::chrono::microseconds(700 * kills));
            q.send(SIGKILL);
            r = q.finish();
            check_resumed(r);
            if (r.signal == SIGKILL) ++kills;
            at_least = std::max(at_least, steps_printed(r) - 1);
            check_no_half_checkpoint(lab, "run");
        }
    CHECK(in_save == 10);
    CHECK(kills >= 12);
    lab.trained("run", sets, {"--resume"});
    CHECK(lab.weights("run") == lab.weights("whole"));
    CHECK(without(lab.metrics("run")) == without(lab.metrics("whole")));
    CHECK(lab.file("run", "completions.jsonl") == lab.file("whole", "completions.jsonl"));
    for (const auto& entry : std::filesystem::directory_iterator(lab.folder("run") + "/checkpoints"))
        CHECK(entry.path().string().find(".tmp") == std::string::npos);
}

TEST_CASE("killed before the first checkpoint, a run is not started anew in silence") {
    Lab lab;
    Options pause;
    pause.env = {{"FP8RL_TEST_PAUSE", "before_rename:60000"}};
    Process p(lab.arguments("run", {"checkpoint.every=1"}), pause);
    REQUIRE(p.wait_for_err("test pause"));
    p.send(SIGKILL);
    p.finish();
    Result r = lab.train("run", {}, {"--resume"});
    CHECK(r.code == 2);
    CHECK(r.said("no complete checkpoint to resume from"));
    CHECK(r.said("--overwrite"));
    lab.trained("run", {}, {"--overwrite"});
}

TEST_CASE("a damaged newest checkpoint is named and the one before it is resumed") {
    Lab lab;
    lab.trained("whole", {"checkpoint.every=3"});
    lab.trained("run", {"checkpoint.every=3"});
    const std::string file = lab.folder("run") + "/checkpoints/step_106/weights.safetensors";
    std::string bytes = read_text(file);
    bytes[bytes.size() / 2] ^= 1;
    std::ofstream(file, std::ios::binary) << bytes;
    Result r = lab.trained("run", {"checkpoint.every=3"}, {"--resume"});
    CHECK(r.said("step_106 skipped"));
    CHECK(r.said("checksum differs"));
    CHECK(resumed_from(r).value_or(0) == 105);
    CHECK(lab.weights("run") == lab.weights("whole"));
    CHECK(without(lab.metrics("run")) == without(lab.metrics("whole")));
}

TEST_CASE("a file that cannot grow is an error that names it, and the earlier checkpoint still resumes") {
    Lab lab;
    lab.trained("whole");
    lab.trained("run", {"train.steps=3"});
    Options full;
    full.file_limit = 160000;  // more than the weights (105 KiB), less than the moments (211 KiB)
    Result r = lab.train("run", {}, {"--resume"}, full);
    INFO(r.err);
    CHECK(r.code == 2);
    CHECK(r.said("was not saved"));
    CHECK(r.said("optimizer.safetensors"));
    CHECK(r.said("are missing; earlier checkpoints are untouched"));
    CHECK(lab.file("run", "checkpoints/latest") == "step_103\n");
    CHECK_FALSE(lab.has("run", "checkpoints/step_106"));
    CHECK(resumed_from(lab.trained("run", {}, {"--resume"})).value_or(0) == 103);
    CHECK(lab.weights("run") == lab.weights("whole"));
}

TEST_CASE("a full disk is an error that names the path and the missing bytes") {
    // A file system of 700 KiB in a mount namespace of its own holds one checkpoint of 320 KiB, not two and a
    // third in the making.
    Options probe;
    probe.program = "unshare";
    Lab lab;
    const std::string disk = lab.folder("disk");
    if (run({"-m", "sh", "-c", "mkdir -p " + disk + " && mount -t tmpfs -o size=4k none " + disk}, probe)
            .code != 0) {
        WARN("no mount namespace here: the disk that is full is not tested");
        return;
    }
    const std::string train = std::string(FP8RL_BINARY) + " train " + lab.recipe() +
                              " --set checkpoint.every=1 --set train.steps=3 --set checkpoint.dir=" + disk +
                              "/run";
    Result r =
        run({"-m", "sh", "-c",
             "mount -t tmpfs -o size=1100k none " + disk + "; " + train + " --set checkpoint.keep=9 >" +
                 lab.scratch().file("out") + "; echo code $? >&2; mount -o remount,size=3m " + disk + "; " +
                 train + " --resume --set checkpoint.keep=1 >/dev/null; echo code $? >&2"},
            probe);
    INFO(r.err);
    CHECK(r.said("code 2\n"));
    CHECK(r.said("No space left on device"));
    CHECK(r.said(disk + "/run/checkpoints/step_"));
    CHECK(r.said("are missing; earlier checkpoints are untouched"));
    CHECK(r.said("resumed from"));
    CHECK(r.said("code 0\n"));
}

}  // namespace fp8rl::test
