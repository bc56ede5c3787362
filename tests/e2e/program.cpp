// fork and exec with pipes. The child does nothing between the two that is not async-signal-safe.
#include "e2e/program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>

#include "test.h"

extern char** environ;

namespace fp8rl::test {
namespace {

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::vector<std::string> environment(const Options& options) {
    std::vector<std::string> env;
    for (char** e = environ; *e; ++e) {
        const std::string entry = *e;
        bool left_out = false;
        for (const char* prefix : {"SLURM_", "OMPI_", "PMI", "MPI_", "FP8RL_", "CUDA_"})
            left_out |= entry.rfind(prefix, 0) == 0;
        if (!left_out) env.push_back(entry);
    }
    for (const auto& [key, value] : options.env) env.push_back(key + "=" + value);
    return env;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> p;
    for (auto& s : strings) p.push_back(s.data());
    p.push_back(nullptr);
    return p;
}

void make_pipe(int (&fds)[2]) {
    if (pipe2(fds, O_CLOEXEC) != 0) FAIL("no pipe");
}

}  // namespace

Process::Process(const std::vector<std::string>& arguments, const Options& options)
    : deadline_(now() + options.seconds) {
    std::vector<std::string> argv = {options.program.empty() ? FP8RL_BINARY : options.program};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    std::vector<std::string> env = environment(options);
    std::vector<char*> argv_p = pointers(argv), env_p = pointers(env);
    int in[2], out[2], err[2];
    make_pipe(in), make_pipe(out), make_pipe(err);
    pid_ = fork();
    if (pid_ < 0) FAIL("no process");
    if (pid_ == 0) {
        dup2(in[0], 0), dup2(out[1], 1), dup2(err[1], 2);
        if (!options.folder.empty() && chdir(options.folder.c_str()) != 0) _exit(126);
        if (options.file_limit > 0) {
            // The signal ignored, a write past the limit fails like one on a full disk.
            signal(SIGXFSZ, SIG_IGN);
            const rlimit limit = {static_cast<rlim_t>(options.file_limit),
                                  static_cast<rlim_t>(options.file_limit)};
            setrlimit(RLIMIT_FSIZE, &limit);
        }
        execvpe(argv_p[0], argv_p.data(), env_p.data());
        _exit(127);
    }
    close(in[0]), close(out[1]), close(err[1]);
    out_ = out[0], err_ = err[0];
    // Shorter than a pipe's buffer, so this does not wait. A child that is gone already tells by its exit
    // code.
    REQUIRE(options.input.size() < 4096);
    const auto before = signal(SIGPIPE, SIG_IGN);
    const ssize_t written = ::write(in[1], options.input.data(), options.input.size());
    REQUIRE((written >= 0 || errno == EPIPE));
    signal(SIGPIPE, before);
    close(in[1]);
}

Process::~Process() {
    if (pid_ > 0) {
        ::kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }
    if (out_ >= 0) close(out_);
    if (err_ >= 0) close(err_);
}

bool Process::pump() {
    if (out_ < 0 && err_ < 0) return false;
    const double left = deadline_ - now();
    if (left <= 0) {
        ::kill(pid_, SIGKILL);
        FAIL("time limit passed; stderr so far:\n" << result_.err);
    }
    pollfd fds[2] = {{out_, POLLIN, 0}, {err_, POLLIN, 0}};
    if (poll(fds, 2, static_cast<int>(left * 1000) + 1) < 0) return true;
    char block[1 << 16];
    for (int i = 0; i < 2; ++i) {
        if (fds[i].fd < 0 || fds[i].revents == 0) continue;
        const ssize_t n = ::read(fds[i].fd, block, sizeof block);
        if (n > 0) (i == 0 ? result_.out : result_.err).append(block, static_cast<size_t>(n));
        if (n == 0 || (n < 0 && errno != EINTR)) {
            close(fds[i].fd);
            (i == 0 ? out_ : err_) = -1;
        }
    }
    return true;
}

bool Process::wait_for(const std::function<bool(const Result&)>& seen) {
    while (!seen(result_))
        if (!pump()) return false;
    return true;
}

bool Process::wait_for_out(const std::string& text) {
    return wait_for([&](const Result& r) { return r.out.find(text) != std::string::npos; });
}

bool Process::wait_for_err(const std::string& text) {
    return wait_for([&](const Result& r) { return r.said(text); });
}

void Process::send(int signal) { ::kill(pid_, signal); }

void Process::close_stdout() {
    if (out_ >= 0) close(out_);
    out_ = -1;
}

void Process::reap() {
    int status = 0;
    if (waitpid(pid_, &status, 0) != pid_) FAIL("the process is lost");
    pid_ = -1;
    if (WIFEXITED(status)) result_.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) result_.signal = WTERMSIG(status);
}

Result Process::finish() {
    while (pump()) {
    }
    reap();
    return result_;
}

Result run(const std::vector<std::string>& arguments, const Options& options) {
    return Process(arguments, options).finish();
}

Scratch::Scratch() {
    const bool memory = access("/dev/shm", W_OK | X_OK) == 0;
    std::string name = (memory ? std::string("/dev/shm") : std::filesystem::temp_directory_path().string()) +
                       "/fp8rl_e2e_XXXXXX";
    if (!mkdtemp(name.data())) FAIL("no temporary folder at " << name);
    path_ = name;
}

Scratch::~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::string Scratch::write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name), std::ios::binary) << text;
    return file(name);
}

}  // namespace fp8rl::test
