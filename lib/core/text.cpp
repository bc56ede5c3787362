#include "core/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace fp8rl::text {

static size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            size_t above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
            diagonal = above;
        }
    }
    return row[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
    std::string best;
    size_t least = std::max<size_t>(2, word.size() / 3) + 1;
    for (const auto& c : candidates)
        if (size_t d = edit_distance(word, c); d < least) least = d, best = c;
    return best;
}

std::vector<std::string> split(std::string_view s, char separator) {
    std::vector<std::string> out;
    size_t begin = 0;
    for (size_t i = 0; i <= s.size(); ++i)
        if (i == s.size() || s[i] == separator) out.emplace_back(s.substr(begin, i - begin)), begin = i + 1;
    return out;
}

std::string_view trim(std::string_view s) {
    auto blank = [](char c) {
        return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
    };
    while (!s.empty() && blank(s.front())) s.remove_prefix(1);
    while (!s.empty() && blank(s.back())) s.remove_suffix(1);
    return s;
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
    std::string out;
    for (size_t i = 0; i < parts.size(); ++i) {
        if (i) out += separator;
        out += parts[i];
    }
    return out;
}

bool parse(std::string_view s, double& out) {
    if (!s.empty() && s.front() == '+') s.remove_prefix(1);
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), out);
    return error == std::errc() && end == s.data() + s.size() && !s.empty();
}

bool parse(std::string_view s, long long& out) {
    if (!s.empty() && s.front() == '+') s.remove_prefix(1);
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), out);
    return error == std::errc() && end == s.data() + s.size() && !s.empty();
}

static std::string number(double x, const char* unit) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, x < 10 ? "%.2f%s" : x < 100 ? "%.1f%s" : "%.0f%s", x, unit);
    return buffer;
}

std::string human_bytes(double bytes) {
    const char* units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    int u = 0;
    while (bytes >= 1024 && u < 4) bytes /= 1024, ++u;
    return u == 0 ? std::to_string(static_cast<long long>(bytes)) + " B" : number(bytes, units[u]);
}

std::string human_count(double n) {
    const char* units[] = {"", "K", "M", "G", "T", "P"};
    int u = 0;
    while (n >= 1000 && u < 5) n /= 1000, ++u;
    return u == 0 ? std::to_string(static_cast<long long>(n)) : number(n, units[u]);
}

std::string human_seconds(double seconds) {
    if (!(seconds >= 0)) return "-";
    if (seconds < 60) return number(seconds, " s");
    auto s = static_cast<long long>(std::llround(seconds));
    char buffer[64];
    if (s >= 3600)
        std::snprintf(buffer, sizeof buffer, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        std::snprintf(buffer, sizeof buffer, "%lld:%02lld", s / 60, s % 60);
    return buffer;
}

bool glob(std::string_view p, std::string_view s) {
    size_t i = 0, j = 0, star = std::string_view::npos, mark = 0;
    while (j < s.size()) {
        if (i < p.size() && (p[i] == '?' || p[i] == s[j]) && p[i] != '*')
            ++i, ++j;
        else if (i < p.size() && p[i] == '*')
            star = i++, mark = j;
        else if (star != std::string_view::npos)
            i = star + 1, j = ++mark;
        else
            return false;
    }
    while (i < p.size() && p[i] == '*') ++i;
    return i == p.size();
}

std::string valid_utf8(std::string_view s) {
    std::string out;
    for (size_t i = 0; i < s.size();) {
        auto c = static_cast<uint8_t>(s[i]);
        size_t n = c < 0x80                ? 1
                   : c >= 0xC2 && c < 0xE0 ? 2
                   : c >= 0xE0 && c < 0xF0 ? 3
                   : c >= 0xF0 && c < 0xF5 ? 4
                                           : 0;
        size_t k = 1;
        for (; n && k < n && i + k < s.size(); ++k) {
            auto d = static_cast<uint8_t>(s[i + k]);
            uint8_t low = k > 1 ? 0x80 : c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
            uint8_t high = k > 1 ? 0xBF : c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
            if (d < low || d > high) break;
        }
        if (n && k == n) {
            out.append(s.substr(i, n));
        } else if (n && i + k == s.size()) {
            break;
        } else {
            out += "\xEF\xBF\xBD";
        }
        i += n ? k : 1;
    }
    return out;
}

}  // namespace fp8rl::text
