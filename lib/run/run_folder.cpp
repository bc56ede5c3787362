#include "run/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "io/json.h"

namespace fp8rl::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* run_files[] = {"recipe.yaml", "metrics.jsonl", "completions.jsonl", "checkpoints",
                                     "summary.json"};

std::string holder(int fd) {
    char buffer[128] = {};
    ssize_t n = ::pread(fd, buffer, sizeof buffer - 1, 0);
    return n > 0 ? std::string(buffer, static_cast<size_t>(n)) : "unknown";
}

}  // namespace

RunFolder::RunFolder(const std::string& path, OpenMode mode) : path_(path) {
    std::error_code failed;
    if (mode == OpenMode::resume) {
        if (!fs::is_directory(path_, failed)) refuse(path_, ": no run to resume: there is no such folder");
    } else {
        fs::create_directories(path_, failed);
        if (failed) refuse(path_, ": the run folder cannot be made: ", failed.message());
    }
    lock_ = ::open(file(".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock_ < 0) refuse(path_, ": the run folder cannot be written: ", std::strerror(errno));
    try {
        if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK) refuse(file(".lock"), ": cannot be locked: ", std::strerror(errno));
            refuse(path_, ": another process writes this run (", holder(lock_),
                   "); wait for it, or choose another checkpoint.dir");
        }
        char host[64] = {};
        ::gethostname(host, sizeof host - 1);
        std::string who = cat("process ", ::getpid(), " on ", host);
        if (::ftruncate(lock_, 0) != 0 ||
            ::pwrite(lock_, who.data(), who.size(), 0) != static_cast<ssize_t>(who.size()))
            refuse(file(".lock"), ": cannot be written: ", std::strerror(errno));

        bool occupied = false;
        for (const char* name : run_files) occupied |= fs::exists(file(name));
        if (mode == OpenMode::fresh && occupied)
            refuse(path_,
                   ": holds a run already; --resume continues it, --overwrite starts anew in its place");
        if (mode == OpenMode::resume && !occupied) refuse(path_, ": no run to resume: the folder holds none");
        if (mode == OpenMode::overwrite)
            for (const char* name : run_files) {
                fs::remove_all(file(name), failed);
                if (failed) refuse(file(name), ": cannot be removed: ", failed.message());
            }
    } catch (...) {
        ::close(lock_);
        throw;
    }
}

RunFolder::~RunFolder() { ::close(lock_); }

void RunFolder::replace(const std::string& name, std::string_view text) {
    std::string temporary = file(name) + ".tmp";
    OutputFile out(temporary);
    out.write(text);
    out.sync();
    out.close();
    if (std::rename(temporary.c_str(), file(name).c_str()) != 0)
        refuse(file(name), ": cannot be replaced: ", std::strerror(errno));
    sync_folder(path_);
}

void RunFolder::write_recipe(const std::string& resolved_yaml) { replace("recipe.yaml", resolved_yaml); }

void RunFolder::write_summary(const Record& summary) {
    std::string text = "{\n";
    const auto& values = summary.values();
    for (size_t i = 0; i < values.size(); ++i) {
        text += "  " + summary.member(i) + (i + 1 < values.size() ? ",\n" : "\n");
    }
    replace("summary.json", text + "}\n");
}

void RunFolder::rewind_to(int64_t step) {
    truncate_after_step(metrics_path(), step);
    truncate_after_step(completions_path(), step);
    std::error_code failed;
    fs::remove(file("summary.json"), failed);
    if (failed) refuse(file("summary.json"), ": cannot be removed: ", failed.message());
}

CompletionsWriter::CompletionsWriter(const std::string& path) : file_(path, OutputFile::Mode::append) {}

void CompletionsWriter::write(const Completion& c) {
    Record line;
    line.set("step", c.step).set("phase", c.phase).set("prompt", c.prompt).set("completion", c.completion);
    if (!c.answer.empty()) line.set("answer", c.answer);
    line.set("reward", c.reward).set("tokens", c.tokens).set("finish", c.finish);
    file_.write(line.json() + "\n");
}

}  // namespace fp8rl::run
