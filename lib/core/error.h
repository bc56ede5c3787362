// core/error: how this program says no.
// Every failure carries the party that can act on it; apps/main.cpp alone catches and turns it into the exit
// code. Messages are one line: file or key or tensor, what was found, what is allowed.
#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace fp8rl {

enum class Fault {
    user = 2,           // recipe, files, arguments: the user can fix it
    defect = 3,         // an invariant of this program does not hold
    device = 4,         // a device or a peer process failed
    interrupted = 130,  // asked to stop; a checkpoint was saved
};

class Error : public std::runtime_error {
  public:
    Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
    Fault fault() const { return fault_; }
    int exit_code() const { return static_cast<int>(fault_); }

  private:
    Fault fault_;
};

// Concatenates anything that streams.
template <class... Parts>
std::string cat(const Parts&... parts) {
    std::ostringstream s;
    (s << ... << parts);
    return s.str();
}

// The user's input is wrong. Exit code 2.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
    throw Error(Fault::user, cat(parts...));
}

// This program is wrong. Exit code 3.
template <class... Parts>
[[noreturn]] void defect(const Parts&... parts) {
    throw Error(Fault::defect, cat(parts...));
}

template <class... Parts>
[[noreturn]] void device_failed(const Parts&... parts) {
    throw Error(Fault::device, cat(parts...));
}

// An invariant: a false condition is a defect.
template <class... Parts>
void check(bool condition, const Parts&... parts) {
    if (!condition) [[unlikely]]
        defect(parts...);
}

}  // namespace fp8rl
