// recipe/codec: see the header.
#include "recipe/codec.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"
#include "core/text.h"

namespace fp8rl::recipe {

std::string quote(const std::string& text) {
    static const char* digits = "0123456789abcdef";
    std::string s = "\"";
    for (char c : text) {
        const auto u = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            s += '\\', s += c;
        else if (c == '\n')
            s += "\\n";
        else if (c == '\t')
            s += "\\t";
        else if (u < 0x20 || u == 0x7f)
            s += "\\x", s += digits[u >> 4], s += digits[u & 15];
        else
            s += c;
    }
    return s + "\"";
}

std::string number_text(double x) {
    char buffer[32];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, x).ptr;
    std::string s(buffer, end);
    if (size_t e = s.find('e'); e != std::string::npos && e + 2 < s.size() && s[e + 2] == '0')
        s.erase(e + 2, 1);
    return s;
}

std::string describe(const Value& v) {
    switch (v.kind) {
        case Value::Kind::null: return "nothing";
        case Value::Kind::list: return "a list";
        case Value::Kind::map: return "a map";
        case Value::Kind::scalar: break;
    }
    std::string shown = text::valid_utf8(std::string_view(v.text).substr(0, 60));
    for (char& c : shown)
        if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    return "'" + shown + (v.text.size() > 60 ? "...'" : "'");
}

static std::string range(const std::string& kind, double low, double high, bool low_open, bool high_open,
                         const std::string& low_text, const std::string& high_text) {
    const bool has_low = std::isfinite(low), has_high = std::isfinite(high);
    if (has_low && has_high)
        return kind + " in " + (low_open ? "(" : "[") + low_text + ", " + high_text + (high_open ? ")" : "]");
    if (has_low) return kind + (low_open ? " > " : " >= ") + low_text;
    if (has_high) return kind + (high_open ? " < " : " <= ") + high_text;
    return kind;
}

std::string Number::type() const {
    return range("number", low, high, low_open, high_open, number_text(low), number_text(high));
}

// YAML's and everyone's spellings of what is not a finite number.
static bool not_finite(std::string s) {
    std::transform(s.begin(), s.end(), s.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? char(c + 32) : c; });
    if (!s.empty() && (s[0] == '+' || s[0] == '-')) s.erase(0, 1);
    if (!s.empty() && s[0] == '.') s.erase(0, 1);
    return s == "nan" || s == "inf" || s == "infinity";
}

double Number::read(const Value& v) const {
    double x = 0;
    if (v.kind != Value::Kind::scalar) throw Mismatch{type() + " is needed; found " + describe(v)};
    if (not_finite(v.text)) throw Mismatch{"must be finite; " + type() + " is needed"};
    if (!text::parse(v.text, x)) throw Mismatch{type() + " is needed; found " + describe(v)};
    if (!(low_open ? x > low : x >= low) || !(high_open ? x < high : x <= high))
        throw Mismatch{"out of range: " + type() + " is needed; found " + describe(v)};
    return x;
}

std::string Integer::type() const {
    const double inf = std::numeric_limits<double>::infinity();
    return range("integer", low == std::numeric_limits<int64_t>::min() ? -inf : double(low),
                 high == std::numeric_limits<int64_t>::max() ? inf : double(high), false, false,
                 std::to_string(low), std::to_string(high));
}

int64_t Integer::read(const Value& v) const {
    const std::string needed = "an integer is needed (" + type() + "); found " + describe(v);
    if (v.kind != Value::Kind::scalar) throw Mismatch{needed};
    long long x = 0;
    if (!text::parse(v.text, x)) {
        double d = 0;  // 1e3
        if (!text::parse(v.text, d) || !(std::abs(d) <= 9007199254740992.0) || d != std::floor(d))
            throw Mismatch{needed};
        x = static_cast<long long>(d);
    }
    if (x < low || x > high) throw Mismatch{"out of range: " + type() + " is needed; found " + describe(v)};
    return x;
}

bool Boolean::read(const Value& v) const {
    if (v.kind == Value::Kind::scalar) {
        if (v.text == "true") return true;
        if (v.text == "false") return false;
        std::string lower = v.text;
        for (char& c : lower)
            if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
        for (const char* yes : {"yes", "on", "y", "true", "1"})
            if (lower == yes) throw Mismatch{"write true (found " + describe(v) + ")"};
        for (const char* no : {"no", "off", "n", "false", "0"})
            if (lower == no) throw Mismatch{"write false (found " + describe(v) + ")"};
    }
    throw Mismatch{"true or false is needed; found " + describe(v)};
}

std::string Text::read(const Value& v) const {
    if (v.kind == Value::Kind::null)
        throw Mismatch{"a text is needed (in quotes, if the word itself is meant)"};
    if (v.kind != Value::Kind::scalar) throw Mismatch{"a text is needed; found " + describe(v)};
    if (v.text.empty() && !may_be_empty) throw Mismatch{"must not be empty"};
    return v.text;
}

// Digits with an optional fraction at s[i...]; false when there are none.
static bool take_number(std::string_view s, size_t& i, double& out) {
    size_t end = i;
    while (end < s.size() && ((s[end] >= '0' && s[end] <= '9') || s[end] == '.')) ++end;
    const bool ok = end > i && text::parse(s.substr(i, end - i), out);
    i = end;
    return ok;
}

static bool parse_duration(std::string_view s, double& seconds) {
    s = text::trim(s);
    if (s.find(':') != std::string_view::npos) {
        const auto parts = text::split(s, ':');
        if (parts.size() > 3) return false;
        seconds = 0;
        for (size_t p = 0; p < parts.size(); ++p) {
            size_t i = 0;
            double x = 0;
            if (!take_number(parts[p], i, x) || i != parts[p].size()) return false;
            if (p && x >= 60) return false;
            seconds = seconds * 60 + x;
        }
        return true;
    }
    if (text::parse(s, seconds)) return true;
    seconds = 0;
    double previous = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < s.size();) {
        double x = 0;
        if (!take_number(s, i, x) || i == s.size()) return false;
        const char unit = s[i++];
        const double size = unit == 'd' ? 86400 : unit == 'h' ? 3600 : unit == 'm' ? 60 : unit == 's' ? 1 : 0;
        if (size == 0 || size >= previous) return false;  // units descend
        previous = size;
        seconds += x * size;
    }
    return !s.empty();
}

double Duration::read(const Value& v) const {
    double seconds = 0;
    if (v.kind != Value::Kind::scalar || !parse_duration(v.text, seconds) || !std::isfinite(seconds) ||
        seconds < 0)
        throw Mismatch{"a " + type() + " is needed; found " + describe(v)};
    return seconds;
}

int64_t Bytes::read(const Value& v) const {
    const std::string needed = type() + " is needed; found " + describe(v);
    if (v.kind != Value::Kind::scalar) throw Mismatch{needed};
    struct Unit {
        const char* name;
        double size;
    };
    static const Unit units[] = {{"TiB", 1099511627776.0},
                                 {"GiB", 1073741824.0},
                                 {"MiB", 1048576.0},
                                 {"KiB", 1024.0},
                                 {"TB", 1e12},
                                 {"GB", 1e9},
                                 {"MB", 1e6},
                                 {"KB", 1e3},
                                 {"kB", 1e3},
                                 {"B", 1}};
    std::string_view s = text::trim(v.text);
    double scale = 1, x = 0;
    for (const auto& u : units)
        if (s.size() > std::string_view(u.name).size() && s.ends_with(u.name)) {
            s.remove_suffix(std::string_view(u.name).size());
            scale = u.size;
            break;
        }
    if (!text::parse(text::trim(s), x)) throw Mismatch{needed};
    x = std::floor(x * scale);
    if (!(x >= 1 && x <= 9.0e18)) throw Mismatch{"out of range: " + needed};
    return static_cast<int64_t>(x);
}

std::string one_of(const std::vector<std::string>& words) { return text::join(words, " | "); }

size_t read_choice(const Value& v, const std::vector<std::string>& words) {
    std::string message = "one of " + text::join(words, ", ") + " is needed; found " + describe(v);
    if (v.kind == Value::Kind::scalar) {
        for (size_t i = 0; i < words.size(); ++i)
            if (v.text == words[i]) return i;
        if (auto near = text::nearest(v.text, words); !near.empty())
            message += "; did you mean " + near + "?";
    }
    throw Mismatch{message};
}

}  // namespace fp8rl::recipe
