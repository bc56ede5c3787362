// rollout/sampler: what is drawn and when a completion ends. Pure: the draw itself is Backend::sample, its
// random number a function of (seed, step, prompt, sample, token). Refused: a temperature below 0, top_p
// outside (0, 1], a negative top_k, no room for a token, an empty stop string, stop strings without a
// decoder.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/types.h"
#include "rollout/episode.h"

namespace fp8rl {

// The bytes of one token; the view stays valid.
using TokenDecoder = std::function<std::string_view(int32_t)>;

struct SamplingConfig {
    float temperature = 1;  // 0: greedy, with log-probs of temperature 1
    float top_p = 1;
    int32_t top_k = 0;  // 0: off
    int64_t max_new_tokens = 256;
    std::vector<int32_t> stop_ids;
    std::vector<std::string> stop_strings;  // matched on decoded bytes, across token borders
    TokenDecoder decode;                    // required by stop_strings
    bool ignore_eos = false;                // neither stop ids nor stop strings end a completion
    uint64_t seed = 1;

    bool greedy() const { return temperature == 0; }
    bool truncates() const { return !greedy() && (top_p < 1 || top_k > 0); }
    // What token_logprob must be given to find the recorded log-probs again.
    float logprob_temperature() const { return greedy() ? 1.0f : temperature; }
};

void validate(const SamplingConfig& config);

// Parameters of the draw of completion token `token` (counted from 0).
SampleParams sample_params(const SamplingConfig& config, uint32_t step, const Request& request,
                           int64_t token);

// When a completion ends. Keeps views of nothing: copies what it needs from the configuration.
class StopRule {
  public:
    explicit StopRule(const SamplingConfig& config);

    // Whether `token`, now the last of `generated` tokens of at most `limit`, ends its completion. `tail` is
    // the completion's own memory of decoded bytes: empty before the first token, written here.
    std::optional<Finish> after(int32_t token, int64_t generated, int64_t limit, std::string& tail) const;

  private:
    std::vector<int32_t> ids_;  // sorted
    std::vector<std::string> strings_;
    TokenDecoder decode_;
    size_t longest_ = 0;
};

}  // namespace fp8rl
