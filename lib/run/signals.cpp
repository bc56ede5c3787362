#include "run/signals.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "core/error.h"

namespace fp8rl::run {
namespace {

std::atomic<int> stop_reason{0};
std::atomic<int> interrupts{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may store only what needs no lock");

void store(Stop reason) {
    int none = 0;
    stop_reason.compare_exchange_strong(none, static_cast<int>(reason));
}

void on_signal(int signal) {
    int saved = errno;
    if (signal == SIGINT && interrupts.fetch_add(1) > 0) _exit(static_cast<int>(Fault::interrupted));
    store(signal == SIGINT ? Stop::sigint : signal == SIGTERM ? Stop::sigterm : Stop::sigusr1);
    errno = saved;
}

}  // namespace

void install_signal_handlers() {
    struct sigaction action {};
    sigemptyset(&action.sa_mask);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (int signal : {SIGTERM, SIGINT, SIGUSR1})
        check(sigaction(signal, &action, nullptr) == 0, "signals: no handler for signal ", signal);
    action.sa_handler = SIG_IGN;
    check(sigaction(SIGPIPE, &action, nullptr) == 0, "signals: SIGPIPE cannot be ignored");
}

void request_stop(Stop reason) { store(reason); }

Stop stop_requested() { return static_cast<Stop>(stop_reason.load()); }

std::string describe(Stop reason) {
    switch (reason) {
        case Stop::none: return "no request to stop";
        case Stop::sigterm: return "SIGTERM";
        case Stop::sigint: return "SIGINT (once more to stop at once)";
        case Stop::sigusr1: return "SIGUSR1";
        case Stop::time_limit: return "the time limit is near";
        case Stop::output_closed: return "standard output was closed by its reader";
    }
    return "?";
}

void clear_stop() {
    stop_reason = 0;
    interrupts = 0;
}

}  // namespace fp8rl::run
