// run/table: the live table of run/metrics. Each value is printed by its column's form; one that is too wide
// pushes its row out rather than being cut.
#include <cmath>
#include <cstdio>

#include "core/text.h"
#include "run/metrics.h"

namespace fp8rl::run {
namespace {

using Form = Table::Column::Form;

std::string print(const char* format, double x) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, format, x);
    return buffer;
}

std::string decimals(double x) {
    double size = std::fabs(x);
    return x == 0 || (size >= 1e-3 && size < 1e5) ? print("%.4f", x) : print("%.2e", x);
}

std::string cell(const Record::Value& value, Form form) {
    if (auto* s = std::get_if<std::string>(&value)) return *s;
    if (auto* b = std::get_if<bool>(&value)) return *b ? "yes" : "no";
    double x = Record::as_number(value);
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x > 0 ? "Inf" : "-Inf";
    switch (form) {
        case Form::integer: return print("%.0f", x);
        case Form::text: return print("%g", x);
        case Form::decimals: return decimals(x);
        case Form::exact: return x == 0 ? "0" : print("%.1e", x);
        case Form::compact: return text::human_count(x);
        case Form::duration: return text::human_seconds(x);
    }
    return "?";
}

// Characters, not bytes: a terminal cell each, as far as continuation bytes tell.
size_t characters(const std::string& s) {
    size_t n = 0;
    for (char c : s) n += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    return n;
}

void put(std::string& line, const std::string& s, int width) {
    if (!line.empty()) line += " ";
    size_t n = characters(s);
    if (n < static_cast<size_t>(width)) line.append(static_cast<size_t>(width) - n, ' ');
    line += s;
}

}  // namespace

Table::Table(std::vector<Column> columns, int header_every)
    : columns_(std::move(columns)), header_every_(header_every) {}

std::string Table::row(const Record& record) {
    std::string head, line;
    if (rows_++ % header_every_ == 0) {
        for (const Column& c : columns_) put(head, c.title, c.width);
        head += "\n";
    }
    for (const Column& c : columns_) {
        const Record::Value* value = record.find(c.key);
        put(line, value ? cell(*value, c.form) : "-", c.width);
    }
    return head + line + "\n";
}

std::vector<Table::Column> Table::run_columns() {
    return {{"step", "step", 5, Form::integer},
            {"phase", "phase", 10, Form::text},
            {"reward", "reward", 7, Form::decimals},
            {"accuracy", "validation/accuracy", 8, Form::decimals},
            {"loss", "loss", 9, Form::decimals},
            {"grad norm", "grad_norm", 9, Form::decimals},
            {"mismatch", "mismatch/max_abs", 8, Form::exact},
            {"tokens/s", "timing/generation_tokens_per_sec", 8, Form::compact},
            {"left", "timing/left", 7, Form::duration}};
}

}  // namespace fp8rl::run
