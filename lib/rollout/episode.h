// rollout/episode: what goes into a rollout and what comes out: token ids and numbers, never text. A request
// is known by (prompt, sample); these two and the step key its random numbers, so that nothing else can
// change what it samples.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace fp8rl {

struct Request {
    int32_t prompt_index = 0;  // global over ranks; requests of one prompt form a group and share its pages
    int32_t sample_index = 0;  // within the group
    std::span<const int32_t> prompt;  // token ids, at least one; must outlive the rollout
};

// stop: a stop id or a stop string ended it. length: max_new_tokens, or the model's last position.
enum class Finish : uint8_t { stop, length };
constexpr const char* name_of(Finish f) { return f == Finish::stop ? "stop" : "length"; }

// One completion. The arrays have one entry a completion token; the stop token (or the token that completed a
// stop string) is the last of them and belongs to the loss like every other.
struct Episode {
    int32_t prompt_index = 0, sample_index = 0;
    std::vector<int32_t> prompt;
    std::vector<int32_t> tokens;
    std::vector<float> logp;     // under the distribution sampled from (temperature, top-p, top-k)
    std::vector<float> entropy;  // nats, of the same distribution
    std::vector<float> cutoff;   // least logit kept; empty without top-p and top-k
    Finish finish = Finish::length;
};

}  // namespace fp8rl
