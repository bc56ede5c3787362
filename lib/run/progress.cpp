#include "run/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "core/error.h"
#include "core/text.h"
#include "run/log.h"
#include "run/time_limit.h"

namespace fp8rl::run {
namespace {

constexpr size_t pace_units = 20;
constexpr double redraw_seconds = 0.1;
constexpr int bar_cells = 24;

// The one terminal: who may write to it, and the bar at its bottom.
struct Terminal {
    std::recursive_mutex mutex;
    Progress* bar = nullptr;
    int holders = 0;
};
Terminal& terminal() {
    static Terminal* const t = new Terminal;
    return *t;
}

}  // namespace

Progress::Options Progress::for_stderr() {
    Options o;
    o.terminal = isatty(STDERR_FILENO) == 1;
    winsize size{};
    if (o.terminal && ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        o.columns = size.ws_col;
    return o;
}

Progress::Progress(Options options) : options_(std::move(options)) {
    if (!options_.clock) options_.clock = monotonic_seconds;
    std::lock_guard lock(terminal().mutex);
    check(!terminal().bar, "progress: a terminal has one bar");
    terminal().bar = this;
}

Progress::~Progress() {
    std::lock_guard lock(terminal().mutex);
    erase();
    terminal().bar = nullptr;
}

void Progress::begin(const std::string& label, int64_t total, int64_t done) {
    std::lock_guard lock(terminal().mutex);
    end();
    label_ = label;
    note_.clear();
    total_ = total;
    done_ = done;
    double now = options_.clock();
    pace_.assign(1, {now, done});
    last_line_ = now;
    running_ = true;
    draw(true);
}

void Progress::update(int64_t done, const std::string& note) {
    std::lock_guard lock(terminal().mutex);
    if (!running_) return;
    done_ = done;
    note_ = note;
    pace_.emplace_back(options_.clock(), done);
    if (pace_.size() > pace_units + 1) pace_.pop_front();
    draw(true);
}

void Progress::note(const std::string& note) {
    std::lock_guard lock(terminal().mutex);
    if (!running_) return;
    note_ = note;
    draw(false);
}

void Progress::end() {
    std::lock_guard lock(terminal().mutex);
    erase();
    running_ = false;
}

double Progress::seconds_left() const {
    if (pace_.size() < 2) return -1;
    int64_t units = pace_.back().second - pace_.front().second;
    if (units <= 0) return -1;
    double seconds = pace_.back().first - pace_.front().first;
    return seconds / static_cast<double>(units) * static_cast<double>(std::max<int64_t>(total_ - done_, 0));
}

std::string Progress::bar() const {
    int64_t filled = total_ > 0 ? std::clamp<int64_t>(done_ * bar_cells / total_, 0, bar_cells) : 0;
    double left = seconds_left();
    std::string line =
        cat(label_, " [", std::string(static_cast<size_t>(filled), '='),
            std::string(static_cast<size_t>(bar_cells - filled), ' '), "] ", done_, "/", total_,
            left < 0 ? "" : "  " + text::human_seconds(left) + " left", note_.empty() ? "" : "  " + note_);
    // The last column stays free: many terminals wrap when it is written.
    if (size_t room = static_cast<size_t>(std::max(options_.columns - 1, 0)); line.size() > room)
        line = text::valid_utf8(line.substr(0, room));
    return line;
}

void Progress::draw(bool always) {
    if (!running_) return;
    double now = options_.clock();
    if (!options_.terminal) {
        if (now - last_line_ < options_.quiet_seconds || terminal().holders) return;
        last_line_ = now;
        double left = seconds_left();
        put(cat(label_, ": ", done_, " of ", total_,
                left < 0 ? "" : ", " + text::human_seconds(left) + " left"));
        return;
    }
    if (terminal().holders || (!always && drawn_ && now - last_drawn_ < redraw_seconds)) return;
    put("\r\x1b[K" + bar());
    last_drawn_ = now;
    drawn_ = true;
}

void Progress::erase() {
    if (drawn_) put("\r\x1b[K");
    drawn_ = false;
}

void Progress::put(const std::string& text) const {
    if (options_.out) return options_.out(text);
    if (!options_.terminal) return log::info(text);
    for (size_t at = 0; at < text.size();) {
        ssize_t n = ::write(STDERR_FILENO, text.data() + at, text.size() - at);
        if (n <= 0) return;  // a bar that cannot be drawn is no reason to stop a run
        at += static_cast<size_t>(n);
    }
}

ClearedLine::ClearedLine() {
    terminal().mutex.lock();
    if (terminal().holders++ == 0 && terminal().bar) terminal().bar->erase();
}

ClearedLine::~ClearedLine() {
    if (--terminal().holders == 0 && terminal().bar && terminal().bar->options_.terminal)
        terminal().bar->draw(true);
    terminal().mutex.unlock();
}

}  // namespace fp8rl::run
