// core/text: small text work shared by rooms that must not know a formatting library.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fp8rl::text {

// The candidate with the least edit distance, or "" when none is near (distance above a third of the length).
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

std::vector<std::string> split(std::string_view s, char separator);
std::string_view trim(std::string_view s);
std::string join(const std::vector<std::string>& parts, std::string_view separator);

// Whole-string conversions, locale-free; false when anything is left over or out of range.
bool parse(std::string_view s, double& out);
bool parse(std::string_view s, long long& out);

std::string human_bytes(double bytes);      // "1.5 GiB"
std::string human_count(double n);          // "134.5M"
std::string human_seconds(double seconds);  // "1:02:03", "12.3 s"

// A glob with * (any run, dots included) and ?; matches the whole string.
bool glob(std::string_view pattern, std::string_view s);

// The well-formed prefix of UTF-8 text: an unfinished last character is left out, ill-formed bytes become
// U+FFFD.
std::string valid_utf8(std::string_view s);

}  // namespace fp8rl::text
