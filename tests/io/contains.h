// Contains("text") as a matcher in either version of Catch2.
#pragma once
#include "test.h"

namespace fp8rl::test {

#ifdef FP8RL_CATCH3
inline auto Contains(const std::string& s) { return Catch::Matchers::ContainsSubstring(s); }
#else
using Catch::Matchers::Contains;
#endif

}  // namespace fp8rl::test
