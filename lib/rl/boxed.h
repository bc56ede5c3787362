// rl/boxed: final answers in LaTeX. Finds the answer in a \boxed{...} and gives it a canonical form, so that
// equal answers are equal text: numbers by exact value (\frac34, 3/4 and 0.75), sets and bare lists without
// order, tuples and intervals in order, anything else by its text without spacing, sizes and styles. What it
// cannot read stays text; it never guesses.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace fp8rl::rl {

// Content of the last complete \boxed{...} or \fbox{...}, trimmed; braces are balanced, \{ and \} are no
// braces.
std::optional<std::string> last_box(std::string_view completion);

// "" only for an answer that is empty.
std::string canonical_math(std::string_view answer);

}  // namespace fp8rl::rl
