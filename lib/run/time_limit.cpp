#include "run/time_limit.h"

#include <algorithm>
#include <chrono>

#include "core/error.h"
#include "core/text.h"

namespace fp8rl::run {

double monotonic_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double epoch_seconds() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::optional<double> slurm_seconds_left(const dist::Environment& environment, double now_epoch) {
    auto it = environment.find("SLURM_JOB_END_TIME");
    if (it == environment.end()) return std::nullopt;
    double end = 0;
    if (!text::parse(it->second, end))
        refuse("launch: SLURM_JOB_END_TIME=", it->second, " is not a number of seconds");
    return end - now_epoch;
}

TimeLimit::TimeLimit(double start, double limit, double margin) {
    if (!(limit > 0)) refuse("time limit: ", limit, " s; it must be positive");
    if (!(margin >= 0 && margin < limit))
        refuse("time limit: checkpoint.before_time_limit (", text::human_seconds(margin),
               ") leaves nothing of the limit of ", text::human_seconds(limit));
    stop_at_ = start + limit - margin;
}

TimeLimit TimeLimit::choose(std::optional<double> limit, double margin, double start,
                            const dist::Environment& environment, double now_epoch) {
    if (limit) return TimeLimit(start, *limit, margin);
    std::optional<double> rest = slurm_seconds_left(environment, now_epoch);
    if (!rest) return TimeLimit();
    if (*rest <= 0) refuse("time limit: the Slurm job's end (SLURM_JOB_END_TIME) has passed");
    TimeLimit t(start, *rest, std::min(margin, *rest / 2));
    t.notice_ = cat("the Slurm job ends in ", text::human_seconds(*rest));
    if (margin > *rest / 2)
        t.notice_ += cat("; checkpoint.before_time_limit (", text::human_seconds(margin),
                         ") is more than half of that, so ", text::human_seconds(*rest / 2), " are kept");
    return t;
}

bool TimeLimit::reached(double now, double next_step) const {
    return stop_at_ && now + next_step > *stop_at_;
}

std::optional<double> TimeLimit::left(double now) const {
    if (!stop_at_) return std::nullopt;
    return *stop_at_ - now;
}

}  // namespace fp8rl::run
