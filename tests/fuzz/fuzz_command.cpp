// Replies of a reward program from any bytes: each line is refused, or gives a finite reward.
#include <cmath>

#include "expect_refusal.h"
#include "rl/command_protocol.h"

using namespace fp8rl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view text(reinterpret_cast<const char*>(data), size);
    for (int64_t id = 0; !text.empty(); ++id) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        fuzz::expect_refusal([&] {
            fuzz::require(std::isfinite(rl::read_reward(line, id, "reply")), "an accepted reward is finite");
        });
    }
    return 0;
}
