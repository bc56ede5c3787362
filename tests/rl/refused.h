// The message of a refusal, for tests that say what a refusal must name.
#pragma once
#include <string>

#include "core/error.h"
#include "test.h"

namespace fp8rl::test {

// Runs f, which must refuse (exit code 2), and returns what it said.
template <class F>
std::string refusal(F&& f) {
    try {
        f();
    } catch (const Error& e) {
        CHECK(e.exit_code() == 2);
        return e.what();
    }
    FAIL("nothing was refused");
    return "";
}

inline bool says(const std::string& message, const std::string& part) {
    bool found = message.find(part) != std::string::npos;
    if (!found) UNSCOPED_INFO("\"" << part << "\" is not in: " << message);
    return found;
}

}  // namespace fp8rl::test
