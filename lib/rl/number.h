// rl/number: numbers as people and models write them: signs, $, thousands separators, decimals, a full stop
// after them. A number is compared by its canonical text, so no length overflows and 1,250.50 is 1250.5
// exactly.
#pragma once
#include <string>
#include <string_view>

namespace fp8rl::rl {

// "1,250.50" -> "1250.5", "-0.0" -> "0", "007" -> "7". `text` is one number: optional sign (also U+2212) and
// $ in either order, digits with or without separators every three digits, an optional fraction, an optional
// full stop at the end. "" when it is not.
std::string canonical_number(std::string_view text);

// The first or last number in free text, canonical; "" = none. A sign belongs to the number when it touches
// it and nothing to be subtracted from stands before: 10-5 ends in 5, "= -5" and "(-5)" in -5.
std::string first_number(std::string_view text);
std::string last_number(std::string_view text);

}  // namespace fp8rl::rl
