// run/progress: one line at the bottom of a terminal that says how far a run is and how long it will take. On
// stderr, and only when that is a terminal; elsewhere a plain log line now and then (at the start of a job,
// at least `quiet_seconds` apart, and at its end). Whoever prints a line holds a ClearedLine, so bar and
// lines never mix.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>

namespace fp8rl::run {

class Progress {
  public:
    struct Options {
        bool terminal = false;
        int columns = 80;                             // of the terminal
        double quiet_seconds = 60;                    // between plain lines
        std::function<double()> clock;                // seconds; absent: the monotonic clock
        std::function<void(const std::string&)> out;  // raw text to the terminal; absent: stderr
    };
    // stderr as it is: a terminal with its width, or not.
    static Options for_stderr();

    explicit Progress(Options options = for_stderr());
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;
    ~Progress();  // clears the bar

    // A job of `total` units, `done` of them behind us (a resumed run). Ends the job before it.
    void begin(const std::string& label, int64_t total, int64_t done = 0);
    void update(int64_t done, const std::string& note = "");
    // Something inside one unit ("rollout 37/64"); shown at most ten times a second.
    void note(const std::string& note);
    void end();

    // Seconds until the job is done, by the pace of its last units; negative: not known yet.
    double seconds_left() const;
    std::string bar() const;  // what a terminal shows

  private:
    friend class ClearedLine;
    void draw(bool always);
    void erase();
    void put(const std::string& text) const;

    Options options_;
    std::string label_, note_;
    int64_t total_ = 0, done_ = 0;
    std::deque<std::pair<double, int64_t>> pace_;  // (time, done) of the last units
    double last_drawn_ = 0, last_line_ = 0;
    bool running_ = false, drawn_ = false;
};

// Holds the terminal: the bar, if any, is off the screen while this lives, and back afterwards.
class ClearedLine {
  public:
    ClearedLine();
    ~ClearedLine();
    ClearedLine(const ClearedLine&) = delete;
    ClearedLine& operator=(const ClearedLine&) = delete;
};

}  // namespace fp8rl::run
