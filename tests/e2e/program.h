// The program under test as a process of its own: arguments in, exit code, stdout and stderr out. Its
// environment is the test's without what would change its mind (launchers, FP8RL_*, CUDA_*), plus what a test
// adds. A process that outlives its time limit is killed, and the test fails.
#pragma once
#include <sys/types.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace fp8rl::test {

struct Options {
    std::vector<std::pair<std::string, std::string>> env;
    std::string input;         // of stdin
    std::string folder;        // working folder; "" is the test's own
    long file_limit = 0;       // bytes of a file (RLIMIT_FSIZE), beyond which a write fails; 0: none
    double seconds = 60;       // time limit
    std::string program = "";  // "" is the fp8rl binary
};

struct Result {
    int code = -1;   // exit code; -1 when a signal ended it
    int signal = 0;  // that signal
    std::string out, err;
    bool said(const std::string& text) const { return err.find(text) != std::string::npos; }
};

class Process {
  public:
    Process(const std::vector<std::string>& arguments, const Options& options = {});
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process();

    // Reads until the predicate holds; false when the process ended before it did.
    bool wait_for(const std::function<bool(const Result&)>& seen);
    bool wait_for_out(const std::string& text);
    bool wait_for_err(const std::string& text);
    void send(int signal);
    void close_stdout();  // as `| head -1` does
    Result finish();
    const Result& so_far() const { return result_; }

  private:
    bool pump();  // one poll; false when both streams are at their end
    void reap();

    pid_t pid_ = -1;
    int out_ = -1, err_ = -1;
    double deadline_;
    Result result_;
};

Result run(const std::vector<std::string>& arguments, const Options& options = {});

// A folder of this test, removed with everything in it. On a memory file system where there is one: nothing
// here depends on the speed of a disk.
class Scratch {
  public:
    Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();
    const std::string& path() const { return path_; }
    std::string file(const std::string& name) const { return path_ + "/" + name; }
    std::string write(const std::string& name, const std::string& text) const;  // its path

  private:
    std::string path_;
};

}  // namespace fp8rl::test
