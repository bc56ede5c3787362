// run/time_limit: when a run must stop so that its last checkpoint is written before the wall clock ends it.
// The limit is the recipe's, or Slurm's end of the job. Times are seconds on a clock that the caller names,
// so tests need not wait.
#pragma once
#include <optional>
#include <string>

#include "dist/launch.h"

namespace fp8rl::run {

// Seconds since the process that asks was started / since the epoch.
double monotonic_seconds();
double epoch_seconds();

// Seconds left to a Slurm job (SLURM_JOB_END_TIME), negative when it is over; nothing outside Slurm.
std::optional<double> slurm_seconds_left(const dist::Environment& environment, double now_epoch);

class TimeLimit {
  public:
    // No limit.
    TimeLimit() = default;
    // `limit` seconds from `start`, of which the last `margin` are kept for saving. Refused: a limit that is
    // not positive, a margin that leaves nothing.
    TimeLimit(double start, double limit, double margin);
    // The recipe's limit when there is one, else what is left of a Slurm job, else none. A margin that is
    // more than half of a Slurm job's rest becomes that half, with a notice.
    static TimeLimit choose(std::optional<double> limit, double margin, double start,
                            const dist::Environment& environment, double now_epoch);

    // True when a step that may take `next_step` seconds from `now` would run into the margin.
    bool reached(double now, double next_step = 0) const;
    // Seconds until the margin begins; nothing when there is no limit.
    std::optional<double> left(double now) const;
    const std::string& notice() const { return notice_; }  // for the log, "" when there is nothing to say

  private:
    std::string notice_;
    std::optional<double> stop_at_;
};

}  // namespace fp8rl::run
