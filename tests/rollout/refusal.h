// The message of a refusal, for the tests of this room.
#pragma once
#include <string>

#include "core/error.h"
#include "test.h"

namespace fp8rl::test {

// What the user is told; "" when nothing is refused.
template <class F>
std::string refusal(F&& f) {
    try {
        f();
    } catch (const Error& e) {
        CHECK(e.fault() == Fault::user);
        return e.what();
    }
    return "";
}

inline bool has(const std::string& message, const std::string& part) {
    return message.find(part) != std::string::npos;
}

}  // namespace fp8rl::test
