#include "run/metrics.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "core/error.h"
#include "core/text.h"
#include "io/json.h"
#include "run/progress.h"
#include "run/signals.h"

namespace fp8rl::run {
namespace {

template <class T>
std::string shortest(T x) {
    if (std::isnan(x)) return "\"NaN\"";
    if (std::isinf(x)) return x > 0 ? "\"Infinity\"" : "\"-Infinity\"";
    char buffer[40];
    auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, x);
    check(error == std::errc(), "metrics: a number that does not print");
    std::string s(buffer, end);
    // A number stays a number for readers that tell 1 from 1.0.
    return s.find_first_of(".e") == std::string::npos ? s + ".0" : s;
}

struct JsonText {
    std::string operator()(float x) const { return shortest(x); }
    std::string operator()(double x) const { return shortest(x); }
    std::string operator()(int64_t n) const { return std::to_string(n); }
    std::string operator()(bool b) const { return b ? "true" : "false"; }
    std::string operator()(const std::string& s) const { return Json(s).dump(); }
};

}  // namespace

std::string json_number(double x) { return shortest(x); }
std::string json_number(float x) { return shortest(x); }

Record& Record::put(std::string key, Value value) {
    for (auto& [name, old] : values_)
        if (name == key) {
            old = std::move(value);
            return *this;
        }
    values_.emplace_back(std::move(key), std::move(value));
    return *this;
}

const Record::Value* Record::find(const std::string& key) const {
    for (const auto& [name, value] : values_)
        if (name == key) return &value;
    return nullptr;
}

double Record::as_number(const Value& v) {
    if (auto* f = std::get_if<float>(&v)) return static_cast<double>(*f);
    if (auto* d = std::get_if<double>(&v)) return *d;
    if (auto* n = std::get_if<int64_t>(&v)) return static_cast<double>(*n);
    return std::numeric_limits<double>::quiet_NaN();
}

double Record::number(const std::string& key) const {
    const Value* v = find(key);
    return v ? as_number(*v) : std::numeric_limits<double>::quiet_NaN();
}

Record& Record::merge(const Record& other) {
    for (const auto& [key, value] : other.values_) put(key, value);
    return *this;
}

std::string Record::member(size_t index) const {
    const auto& [key, value] = values_.at(index);
    return Json(key).dump() + ": " + std::visit(JsonText{}, value);
}

std::string Record::json() const {
    std::string line = "{";
    for (size_t i = 0; i < values_.size(); ++i) line += (i ? ", " : "") + member(i);
    return line + "}";
}

MetricsWriter::MetricsWriter(const std::string& path, StdoutForm form, int stdout_fd)
    : file_(path, OutputFile::Mode::append), form_(form), stdout_fd_(stdout_fd) {}

void MetricsWriter::write(const Record& record) {
    std::string line = record.json() + "\n";
    file_.write(line);
    if (form_ == StdoutForm::none || !stdout_open_) return;
    std::string shown = form_ == StdoutForm::json ? line : table_.row(record);
    ClearedLine cleared;
    for (size_t at = 0; at < shown.size();) {
        ssize_t n = ::write(stdout_fd_, shown.data() + at, shown.size() - at);
        if (n >= 0) {
            at += static_cast<size_t>(n);
        } else if (errno == EAGAIN) {
            pollfd writable{stdout_fd_, POLLOUT, 0};
            ::poll(&writable, 1, -1);
        } else if (errno == EPIPE) {
            stdout_open_ = false;
            request_stop(Stop::output_closed);
            return;
        } else if (errno != EINTR) {
            refuse("standard output: cannot be written: ", std::strerror(errno));
        }
    }
}

void MetricsWriter::sync() { file_.sync(); }

StdoutForm stdout_form(const std::string& choice, bool stdout_is_terminal) {
    if (choice == "json") return StdoutForm::json;
    if (choice == "table") return StdoutForm::table;
    if (choice == "auto") return stdout_is_terminal ? StdoutForm::table : StdoutForm::json;
    refuse("--metrics ", choice, ": auto, json or table");
}

uint64_t truncate_after_step(const std::string& path, int64_t step) {
    if (!std::filesystem::exists(path)) return 0;
    uint64_t size = 0, keep = 0;
    {
        MappedFile file(path);
        std::string_view text = file.text();
        size = text.size();
        for (size_t end; (end = text.find('\n', keep)) != std::string_view::npos; keep = end + 1) {
            try {
                Json line = Json::parse(text.substr(keep, end - keep), path);
                if (line.integer_or("step", 0) > step) break;
            } catch (const Error&) {
                break;  // half-written, or damaged: whatever follows cannot be placed either
            }
        }
    }
    if (keep < size && ::truncate(path.c_str(), static_cast<off_t>(keep)) != 0)
        refuse(path, ": cannot be cut at byte ", keep, ": ", std::strerror(errno));
    return size - keep;
}

}  // namespace fp8rl::run
