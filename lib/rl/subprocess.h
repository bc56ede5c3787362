// rl/subprocess: a program that stays running and is spoken to in lines over its standard input and output.
// Its standard error is ours. Started from an argument list, never through a shell; in a process group of its
// own, so that nothing it started outlives it. Always reaped. Writing to a program that has gone is an
// outcome, not a signal.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

namespace fp8rl::rl {

class Subprocess {
  public:
    // Refuses a program that cannot be started.
    explicit Subprocess(const std::vector<std::string>& argv);
    Subprocess(const Subprocess&) = delete;
    Subprocess& operator=(const Subprocess&) = delete;
    // Closes its input, grants a second to end by itself, then kills the group.
    ~Subprocess();

    enum class Outcome { complete, closed, timed_out, line_too_long };
    struct Exchange {
        Outcome outcome;
        std::vector<std::string> lines;  // read so far, without the line ends
    };
    static constexpr size_t longest_line = 1 << 20;  // bytes

    // Writes `input` while reading, until `lines` lines have come, the program closed its output, or the
    // limit has passed.
    Exchange exchange(std::string_view input, size_t lines, std::chrono::duration<double> limit);

    // Output beyond the lines asked for that has arrived already.
    bool has_unread_output();
    // Waits until it ends (at most `limit`, then kills) and says how: "exit code 3", "signal 9".
    std::string end(std::chrono::duration<double> limit);
    void kill();

  private:
    bool read_some();  // false: the program closed its output
    pid_t pid_ = -1;   // -1: reaped
    int to_ = -1, from_ = -1;
    std::string buffer_;
    std::string ending_;
};

}  // namespace fp8rl::rl
