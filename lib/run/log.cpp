#include "run/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "run/progress.h"

namespace fp8rl::run::log {
namespace {

// Never destroyed: a line may still come while the program ends.
spdlog::logger& logger() {
    static spdlog::logger* const l = [] {
        auto* made = new spdlog::logger("fp8rl", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
        made->set_pattern("%Y-%m-%d %H:%M:%S %^%l%$: %v");
        return made;
    }();
    return *l;
}

spdlog::level::level_enum spdlog_level(Level level) {
    switch (level) {
        case Level::debug: return spdlog::level::debug;
        case Level::info: return spdlog::level::info;
        case Level::warn: return spdlog::level::warn;
        case Level::error: return spdlog::level::err;
        case Level::off: return spdlog::level::off;
    }
    return spdlog::level::info;
}

void print(Level level, const std::string& line) {
    if (!logger().should_log(spdlog_level(level))) return;
    ClearedLine cleared;
    logger().log(spdlog_level(level), spdlog::string_view_t(line));
    logger().flush();
}

}  // namespace

void set_level(Level level) { logger().set_level(spdlog_level(level)); }
void debug(const std::string& line) { print(Level::debug, line); }
void info(const std::string& line) { print(Level::info, line); }
void warn(const std::string& line) { print(Level::warn, line); }
void error(const std::string& line) { print(Level::error, line); }

}  // namespace fp8rl::run::log
