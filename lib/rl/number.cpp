#include "rl/number.h"

#include <algorithm>
#include <cctype>

#include "core/text.h"

namespace fp8rl::rl {

static constexpr std::string_view minus_sign = "\u2212";

static bool digit(std::string_view s, size_t i) { return i < s.size() && s[i] >= '0' && s[i] <= '9'; }

static size_t digits_from(std::string_view s, size_t i) {
    while (digit(s, i)) ++i;
    return i;
}

// Length of the thousands separator at i: a comma, in LaTeX also {,}.
static size_t separator(std::string_view s, size_t i) {
    s = s.substr(std::min(i, s.size()));
    return s.starts_with(',') ? 1 : s.starts_with("{,}") ? 3 : 0;
}

// End of the unsigned number that starts at i: digits, groups of three after commas, a fraction; i when there
// is none.
static size_t number_end(std::string_view s, size_t i) {
    size_t begin = i;
    i = digits_from(s, i);
    if (i > begin && i - begin <= 3)
        while (size_t comma = separator(s, i)) {
            if (digits_from(s, i + comma) != i + comma + 3) break;
            i += comma + 3;
        }
    if (i < s.size() && s[i] == '.' && digit(s, i + 1)) i = digits_from(s, i + 1);
    return i;
}

static std::string canonical(std::string_view unsigned_number, bool negative) {
    std::string whole, fraction;
    bool after_point = false;
    for (char c : unsigned_number) {
        if (c == '.') after_point = true;
        // Leading zeros are not taken up.
        if (c >= '0' && c <= '9' && (after_point || c != '0' || !whole.empty()))
            (after_point ? fraction : whole).push_back(c);
    }
    while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
    std::string out;
    if (negative && !(whole.empty() && fraction.empty())) out.push_back('-');
    if (whole.empty()) whole.push_back('0');
    out += whole;
    if (!fraction.empty()) out.append(1, '.').append(fraction);
    return out;
}

static bool consume(std::string_view& s, std::string_view prefix) {
    if (!s.starts_with(prefix)) return false;
    s.remove_prefix(prefix.size());
    return true;
}

std::string canonical_number(std::string_view text) {
    std::string_view s = text::trim(text);
    bool dollar = consume(s, "$");
    bool negative = consume(s, "-") || consume(s, minus_sign);
    if (!negative) consume(s, "+");
    if (!dollar) consume(s, "$");
    size_t end = number_end(s, 0);
    if (end == 0) return "";
    std::string_view rest = s.substr(end);
    if (!rest.empty() && rest != ".") return "";
    return canonical(s.substr(0, end), negative);
}

// Whether a sign touches the number at `begin` (a $ may stand between) and has nothing before it to subtract
// from.
static bool negative_at(std::string_view s, size_t begin) {
    std::string_view before = s.substr(0, begin);
    if (before.ends_with('$')) before.remove_suffix(1);
    if (before.ends_with('-'))
        before.remove_suffix(1);
    else if (before.ends_with(minus_sign))
        before.remove_suffix(minus_sign.size());
    else
        return false;
    if (before.empty()) return true;
    auto last = static_cast<unsigned char>(before.back());
    return !std::isalnum(last) && last != ')' && last != ']' && last != '}' && last < 0x80;
}

// Calls found(canonical) for each number, left to right, until it returns true.
template <class F>
static void scan_numbers(std::string_view s, F&& found) {
    for (size_t i = 0; i < s.size();) {
        size_t end = number_end(s, i);
        if (end == i) {
            ++i;
            continue;
        }
        if (found(canonical(s.substr(i, end - i), negative_at(s, i)))) return;
        i = end;
    }
}

std::string first_number(std::string_view text) {
    std::string first;
    scan_numbers(text, [&](std::string n) {
        first = std::move(n);
        return true;
    });
    return first;
}

std::string last_number(std::string_view text) {
    std::string last;
    scan_numbers(text, [&](std::string n) {
        last = std::move(n);
        return false;
    });
    return last;
}

}  // namespace fp8rl::rl
