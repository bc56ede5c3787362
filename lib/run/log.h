// run/log: the human log, one line per event on stderr (stdout carries data and nothing else). Rooms call
// these and need no logging library. Lines and the progress bar never mix: the bar is cleared first
// (run/progress).
#pragma once
#include <string>

namespace fp8rl::run::log {

enum class Level { debug, info, warn, error, off };

void set_level(Level level);  // info to begin with
void debug(const std::string& line);
void info(const std::string& line);
void warn(const std::string& line);
void error(const std::string& line);

}  // namespace fp8rl::run::log
