// What a reader may do with bytes it does not like: refuse them as the user's fault (exit code 2). Any other
// error is a defect and ends the fuzz run.
#pragma once
#include <cstdio>
#include <cstdlib>

#include "core/error.h"

namespace fp8rl::fuzz {

template <class F>
void expect_refusal(F f) {
    try {
        f();
    } catch (const Error& e) {
        if (e.fault() != Fault::user) {
            std::fprintf(stderr, "a defect: %s\n", e.what());
            std::abort();
        }
    }
}

inline void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "does not hold: %s\n", what);
    std::abort();
}

}  // namespace fp8rl::fuzz
