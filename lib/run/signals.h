// run/signals: a request to stop, from a signal or from inside. SIGTERM, SIGINT and SIGUSR1 (what Slurm sends
// before a time limit) ask for a stop at the end of the step; the trainer polls, saves and exits. A second
// SIGINT ends the process at once with 130. SIGPIPE is ignored, so a closed stdout is a write error.
// The handlers store one number and call _exit: nothing that is not async-signal-safe.
#pragma once
#include <string>

namespace fp8rl::run {

enum class Stop : int { none, sigterm, sigint, sigusr1, time_limit, output_closed };

// Installs the handlers, once per process; threads started later inherit them.
void install_signal_handlers();

// The first reason wins.
void request_stop(Stop reason);
Stop stop_requested();
// "SIGTERM", "the time limit is near", ...
std::string describe(Stop reason);
// Forgets a request: for a process that runs more than one job.
void clear_stop();

}  // namespace fp8rl::run
