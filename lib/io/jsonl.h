// io/jsonl: one JSON value per line. Reading names file and line of whatever is wrong; blank lines are
// skipped. The writer hands each line to the system whole, so that a killed process leaves whole lines
// behind.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/parallel.h"
#include "io/file.h"
#include "io/json.h"

namespace fp8rl {

// Calls take(value, line) for each line, counted from 1.
void for_each_json_line(std::string_view text, const std::string& source,
                        FunctionRef<void(Json&&, int64_t line)> take);
std::vector<Json> parse_json_lines(std::string_view text, const std::string& source);
std::vector<Json> read_json_lines(const std::string& path);

class JsonlWriter {
  public:
    explicit JsonlWriter(const std::string& path, OutputFile::Mode mode = OutputFile::Mode::append)
        : file_(path, mode) {}
    void write(const Json& value) { write_line(value.dump()); }
    void write_line(std::string line);  // must hold no line break
    void sync() { file_.sync(); }
    void close() { file_.close(); }

  private:
    OutputFile file_;
};

}  // namespace fp8rl
