// run/metrics: what a run reports. A Record is a flat, ordered list of key and value; it is one JSON object
// on one line of <run>/metrics.jsonl, always, and on stdout either that line or a row of a live table.
// Numbers have the shortest form that reads back the same (a float as float, a double as double). JSON has no
// NaN and no Inf: they are the strings "NaN", "Infinity" and "-Infinity", which Python's float() and
// JavaScript's Number() take. Refused: a line that cannot be written, naming the file.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "io/file.h"

namespace fp8rl::run {

class Record {
  public:
    using Value = std::variant<float, double, int64_t, bool, std::string>;

    // Sets or replaces; a new key comes last.
    template <class T>
    Record& set(std::string key, T value) {
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, float> || std::is_same_v<T, double>)
            return put(std::move(key), Value(value));
        else if constexpr (std::is_integral_v<T>)
            return put(std::move(key), Value(static_cast<int64_t>(value)));
        else
            return put(std::move(key), Value(std::string(std::move(value))));
    }

    const Value* find(const std::string& key) const;  // nullptr: absent
    static double as_number(const Value& value);      // NaN: a text or a truth value
    double number(const std::string& key) const;      // NaN: absent or not a number
    const std::vector<std::pair<std::string, Value>>& values() const { return values_; }
    // All of the other record's values, set into this one.
    Record& merge(const Record& other);

    std::string json() const;                // one line, without the newline
    std::string member(size_t index) const;  // "key": value

  private:
    Record& put(std::string key, Value value);
    std::vector<std::pair<std::string, Value>> values_;
};

// A number as in json(), also for other writers of JSON lines.
std::string json_number(double x);
std::string json_number(float x);

// Rows of a fixed set of columns, aligned, the header repeated every `header_every` rows.
class Table {
  public:
    struct Column {
        std::string title;
        std::string key;
        int width;
        enum class Form { integer, text, decimals, exact, compact, duration } form;
    };
    explicit Table(std::vector<Column> columns = run_columns(), int header_every = 20);

    // The header when it is due, then the row; each line ends in a newline. A value that the record lacks is
    // "-".
    std::string row(const Record& record);

    // step, phase, reward, validation accuracy, loss, grad norm, mismatch max, tokens/s, time left: 79 cells,
    // for a terminal of 80.
    static std::vector<Column> run_columns();

  private:
    std::vector<Column> columns_;
    int header_every_;
    int64_t rows_ = 0;
};

enum class StdoutForm { none, json, table };
// "auto" (a table on a terminal, JSON lines elsewhere), "json", "table"; anything else is refused.
StdoutForm stdout_form(const std::string& choice, bool stdout_is_terminal);

class MetricsWriter {
  public:
    // Appends to `path`. `stdout_fd` is where the second copy goes, 1 outside tests.
    MetricsWriter(const std::string& path, StdoutForm form, int stdout_fd = 1);

    // The file first, then stdout. When stdout's reader has gone (`| head`), a stop is requested and the run
    // ends cleanly at the end of its step.
    void write(const Record& record);
    // Until this returns, lines may be lost in a power cut: call it before a checkpoint of their step is
    // saved.
    void sync();

  private:
    OutputFile file_;
    StdoutForm form_;
    int stdout_fd_;
    bool stdout_open_ = true;
    Table table_;
};

// Cuts a file of JSON lines after the last line whose "step" is at most `step`: lines of later steps, and a
// half-written last line, are what a resumed run writes again. Steps must not decrease from line to line. An
// absent file is left absent. Returns the number of bytes removed.
uint64_t truncate_after_step(const std::string& path, int64_t step);

}  // namespace fp8rl::run
