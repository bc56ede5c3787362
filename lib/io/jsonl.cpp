#include "io/jsonl.h"

#include "core/error.h"
#include "core/text.h"

namespace fp8rl {

void for_each_json_line(std::string_view text, const std::string& source,
                        FunctionRef<void(Json&&, int64_t line)> take) {
    int64_t line = 0;
    for (size_t begin = 0; begin < text.size();) {
        ++line;
        size_t end = std::min(text.find('\n', begin), text.size());
        std::string_view s = text.substr(begin, end - begin);
        begin = end + 1;
        if (text::trim(s).empty()) continue;
        take(Json::parse(s, cat(source, ":", line), 0), line);
    }
}

std::vector<Json> parse_json_lines(std::string_view text, const std::string& source) {
    std::vector<Json> out;
    for_each_json_line(text, source, [&](Json&& value, int64_t) { out.push_back(std::move(value)); });
    return out;
}

std::vector<Json> read_json_lines(const std::string& path) {
    MappedFile file(path);
    return parse_json_lines(file.text(), path);
}

void JsonlWriter::write_line(std::string line) {
    check(line.find('\n') == std::string::npos, file_.path(), ": a line break inside a JSON line");
    line += '\n';
    file_.write(line);
}

}  // namespace fp8rl
