#include "rl/boxed.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <utility>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "rl/number.h"

namespace fp8rl::rl {

std::optional<std::string> last_box(std::string_view s) {
    struct Brace {
        size_t content;
        bool box;
    };
    std::vector<Brace> open;
    size_t begin = 0, end = 0;
    bool found = false, box_next = false;
    for (size_t i = 0; i < s.size(); ++i) {
        if (s[i] == '\\') {
            std::string_view rest = s.substr(i + 1);
            size_t length = rest.starts_with("boxed") ? 5 : rest.starts_with("fbox") ? 4 : 0;
            box_next = length > 0;
            i += std::max<size_t>(length, 1);  // an escaped brace is no brace
        } else if (s[i] == '{') {
            open.push_back({i + 1, std::exchange(box_next, false)});
        } else if (s[i] == '}') {
            if (open.empty()) continue;
            Brace brace = open.back();
            open.pop_back();
            if (brace.box && (!found || brace.content > begin)) found = true, begin = brace.content, end = i;
        } else if (s[i] != ' ') {
            box_next = false;
        }
    }
    if (!found) return std::nullopt;
    std::string_view content = text::trim(s.substr(begin, end - begin));
    if (content.ends_with('.')) content.remove_suffix(1);
    return std::string(text::trim(content));
}

static void replace_all(std::string& s, std::string_view from, std::string_view to) {
    std::string out;
    size_t at = 0;
    for (size_t next; (next = s.find(from, at)) != std::string::npos; at = next + from.size()) {
        out.append(s, at, next - at);
        out += to;
    }
    s = out.append(s, at);
}

// Removes \name where it is not the beginning of a longer command (\left but not \leftarrow).
static void remove_command(std::string& s, const std::string& name) {
    std::string out;
    size_t at = 0;
    for (size_t next; (next = s.find(name, at)) != std::string::npos; at = next + name.size()) {
        size_t after = next + name.size();
        bool longer = after < s.size() && std::isalpha(static_cast<unsigned char>(s[after]));
        out.append(s, at, (longer ? after : next) - at);
    }
    s = out.append(s, at);
}

// Index after the group that opens at `i`, or npos when it does not close.
static size_t group_end(std::string_view s, size_t i) {
    int depth = 0;
    for (; i < s.size(); ++i) {
        if (s[i] == '\\')
            ++i;
        else if (s[i] == '{')
            ++depth;
        else if (s[i] == '}' && --depth == 0)
            return i + 1;
    }
    return std::string_view::npos;
}

// \text{...} and friends: one that ends the answer after something else is a unit and goes; others lose the
// wrapper.
static void unwrap_text(std::string& s) {
    for (const char* wrapper :
         {"\\text{", "\\textbf{", "\\textit{", "\\textrm{", "\\mathrm{", "\\mathbf{", "\\mbox{"}) {
        const size_t length = std::string_view(wrapper).size();
        std::string out;
        size_t at = 0;
        for (size_t next; (next = s.find(wrapper, at)) != std::string::npos;) {
            size_t end = group_end(s, next + length - 1);
            if (end == std::string::npos) break;
            out.append(s, at, next - at);
            std::string_view rest = text::trim(std::string_view(s).substr(end));
            bool unit = !text::trim(out).empty() && (rest.empty() || rest == ".");
            if (!unit) out.append(s, next + length, end - 1 - (next + length));
            at = end;
        }
        s = out.append(s, at);
    }
}

// \frac34 -> \frac{3}{4}, \sqrt2 -> \sqrt{2}.
static std::string brace_arguments(std::string_view s) {
    std::string out;
    for (size_t i = 0; i < s.size();) {
        int arguments = s.substr(i).starts_with("\\frac") ? 2 : s.substr(i).starts_with("\\sqrt") ? 1 : 0;
        if (arguments == 0) {
            out += s[i++];
            continue;
        }
        out.append(s.substr(i, 5));
        i += 5;
        for (; arguments > 0 && i < s.size(); --arguments) {
            if (s[i] == '{') {
                size_t end = std::min(group_end(s, i), s.size());
                out.append(s.substr(i, end - i));
                i = end;
            } else if (std::isalnum(static_cast<unsigned char>(s[i]))) {
                out.append({'{', s[i++], '}'});
            } else {
                break;  // a command or an optional argument: left as it is
            }
        }
    }
    return out;
}

static std::string clean(std::string_view answer) {
    std::string s(text::trim(answer));
    for (auto [from, to] : {std::pair{"\\!", ""},
                            {"\\,", ""},
                            {"\\;", ""},
                            {"\\:", ""},
                            {"\\ ", " "},
                            {"~", " "},
                            {"\\$", ""},
                            {"$", ""},
                            {"\\%", ""},
                            {"%", ""},
                            {"{,}", ","},
                            {"\\dfrac", "\\frac"},
                            {"\\tfrac", "\\frac"},
                            {"\\cfrac", "\\frac"},
                            {"^{\\circ}", ""},
                            {"^\\circ", ""},
                            {"\u2212", "-"}})
        replace_all(s, from, to);
    for (const char* command : {"\\left", "\\right", "\\displaystyle", "\\quad"}) remove_command(s, command);
    unwrap_text(s);
    std::erase_if(s, [](unsigned char c) { return std::isspace(c); });
    if (s.ends_with('.')) s.pop_back();
    // "x=5" answers "5".
    size_t equals = s.find('=');
    if (equals != std::string::npos && equals >= 1 && equals <= 2 &&
        s.find('=', equals + 1) == std::string::npos && std::isalpha(static_cast<unsigned char>(s[0])) &&
        equals + 1 < s.size())
        s.erase(0, equals + 1);
    return brace_arguments(s);
}

// An exact fraction in lowest terms, denominator > 0. Nothing when 64 bits do not hold it.
struct Rational {
    int64_t numerator, denominator;

    static std::optional<Rational> of(int64_t n, int64_t d) {
        if (d == 0 || n == INT64_MIN || d == INT64_MIN) return std::nullopt;
        int64_t g = std::gcd(n, d);
        if (d < 0) g = -g;
        return Rational{n / g, d / g};
    }
    std::optional<Rational> divided_by(const Rational& other) const {
        int64_t n, d;
        if (__builtin_mul_overflow(numerator, other.denominator, &n)) return std::nullopt;
        if (__builtin_mul_overflow(denominator, other.numerator, &d)) return std::nullopt;
        return of(n, d);
    }
    std::optional<Rational> plus(const Rational& other) const {
        int64_t a, b, n, d;
        if (__builtin_mul_overflow(numerator, other.denominator, &a)) return std::nullopt;
        if (__builtin_mul_overflow(other.numerator, denominator, &b)) return std::nullopt;
        if (__builtin_add_overflow(a, b, &n)) return std::nullopt;
        if (__builtin_mul_overflow(denominator, other.denominator, &d)) return std::nullopt;
        return of(n, d);
    }
};

static std::optional<Rational> decimal(std::string_view s) {
    std::string canonical = canonical_number(s);
    if (canonical.empty()) return std::nullopt;
    size_t point = canonical.find('.');
    size_t places = point == std::string::npos ? 0 : canonical.size() - point - 1;
    if (point != std::string::npos) canonical.erase(point, 1);
    if (canonical.size() > 18) return std::nullopt;
    int64_t denominator = 1;
    for (size_t i = 0; i < places; ++i) denominator *= 10;
    return Rational::of(std::stoll(canonical), denominator);
}

// A decimal, a/b, \frac{a}{b} or a mixed number 2\frac{1}{3}, with an optional sign.
static std::optional<Rational> value_of(std::string_view s) {
    if (auto plain = decimal(s)) return plain;
    bool negative = s.starts_with('-');
    if (negative || s.starts_with('+')) s.remove_prefix(1);
    std::optional<Rational> value;
    if (size_t at = s.find("\\frac{"); at != std::string_view::npos) {
        size_t split = group_end(s, at + 5);
        if (split == std::string_view::npos || split >= s.size() || s[split] != '{') return std::nullopt;
        size_t end = group_end(s, split);
        if (end != s.size()) return std::nullopt;
        auto top = decimal(s.substr(at + 6, split - at - 7)),
             bottom = decimal(s.substr(split + 1, end - split - 2));
        if (!top || !bottom) return std::nullopt;
        value = top->divided_by(*bottom);
        if (at > 0) {
            std::string_view whole_text = s.substr(0, at);
            auto whole = decimal(whole_text);
            bool unsigned_whole = std::isdigit(static_cast<unsigned char>(whole_text[0]));
            if (!whole || !unsigned_whole || whole->denominator != 1 || !value || value->numerator < 0)
                return std::nullopt;
            value = whole->plus(*value);
        }
    } else if (size_t slash = s.find('/'); slash != std::string_view::npos) {
        auto top = decimal(s.substr(0, slash)), bottom = decimal(s.substr(slash + 1));
        if (!top || !bottom) return std::nullopt;
        value = top->divided_by(*bottom);
    }
    if (value && negative) value->numerator = -value->numerator;
    return value;
}

// Parts between the commas that stand in no bracket.
static std::vector<std::string_view> split_list(std::string_view s) {
    std::vector<std::string_view> parts;
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i < s.size(); ++i) {
        if (s[i] == '(' || s[i] == '[' || s[i] == '{') ++depth;
        if (s[i] == ')' || s[i] == ']' || s[i] == '}') --depth;
        if (s[i] == ',' && depth == 0) parts.push_back(s.substr(begin, i - begin)), begin = i + 1;
    }
    parts.push_back(s.substr(begin));
    return parts;
}

static std::string canonical_clean(std::string_view s, int depth);

static std::vector<std::string> canonical_parts(std::string_view s, int depth) {
    std::vector<std::string> out;
    for (auto part : split_list(s)) out.push_back(canonical_clean(part, depth + 1));
    return out;
}

// Whether the bracket that opens at 0 is the one that the last character closes.
static bool enclosed(std::string_view s) {
    int depth = 0;
    for (size_t i = 0; i < s.size(); ++i) {
        if (s[i] == '(' || s[i] == '[' || s[i] == '{') ++depth;
        if ((s[i] == ')' || s[i] == ']' || s[i] == '}') && --depth == 0) return i + 1 == s.size();
    }
    return false;
}

static std::string canonical_clean(std::string_view s, int depth) {
    constexpr int max_depth = 20;
    if (auto v = value_of(s))
        return v->denominator == 1 ? cat(v->numerator) : cat(v->numerator, "/", v->denominator);
    if (depth >= max_depth) return std::string(s);
    if (s.starts_with("\\{") && s.ends_with("\\}") && s.size() >= 4 && enclosed(s.substr(1))) {
        auto parts = canonical_parts(s.substr(2, s.size() - 4), depth);
        std::sort(parts.begin(), parts.end());
        parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
        return "\\{" + text::join(parts, ",") + "\\}";
    }
    if (s.size() >= 2 && (s[0] == '(' || s[0] == '[') && (s.back() == ')' || s.back() == ']') && enclosed(s))
        return s[0] + text::join(canonical_parts(s.substr(1, s.size() - 2), depth), ",") + s.back();
    if (split_list(s).size() > 1) {
        auto parts = canonical_parts(s, depth);
        std::sort(parts.begin(), parts.end());
        return text::join(parts, ",");
    }
    return std::string(s);
}

std::string canonical_math(std::string_view answer) { return canonical_clean(clean(answer), 0); }

}  // namespace fp8rl::rl
