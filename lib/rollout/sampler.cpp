// rollout/sampler: stop rules and keys of draws.
#include "rollout/sampler.h"

#include <algorithm>
#include <cmath>

#include "core/rng.h"

namespace fp8rl {

void validate(const SamplingConfig& c) {
    if (!(c.temperature >= 0) || !std::isfinite(c.temperature))
        refuse("rollout: temperature ", c.temperature, ": allowed is 0 (greedy) or any positive number");
    if (!(c.top_p > 0 && c.top_p <= 1)) refuse("rollout: top_p ", c.top_p, ": allowed is above 0, at most 1");
    if (c.top_k < 0) refuse("rollout: top_k ", c.top_k, ": allowed is 0 (off) or a positive number");
    if (c.max_new_tokens < 1) refuse("rollout: max_new_tokens ", c.max_new_tokens, ": allowed is at least 1");
    for (const std::string& s : c.stop_strings)
        if (s.empty()) refuse("rollout: an empty stop string would end every completion at its first token");
    if (!c.stop_strings.empty() && !c.ignore_eos && !c.decode)
        refuse("rollout: stop strings need a tokenizer that decodes tokens");
}

SampleParams sample_params(const SamplingConfig& c, uint32_t step, const Request& r, int64_t token) {
    SampleParams p;
    p.temperature = c.temperature;
    p.uniform = sampling_uniform(c.seed, step, static_cast<uint32_t>(r.prompt_index),
                                 static_cast<uint32_t>(r.sample_index), static_cast<uint32_t>(token));
    if (c.truncates()) {
        p.top_p = c.top_p;
        p.top_k = c.top_k;
    }
    return p;
}

StopRule::StopRule(const SamplingConfig& c) {
    if (c.ignore_eos) return;
    ids_ = c.stop_ids;
    std::sort(ids_.begin(), ids_.end());
    strings_ = c.stop_strings;
    decode_ = c.decode;
    for (const std::string& s : strings_) longest_ = std::max(longest_, s.size());
}

std::optional<Finish> StopRule::after(int32_t token, int64_t generated, int64_t limit,
                                      std::string& tail) const {
    if (std::binary_search(ids_.begin(), ids_.end(), token)) return Finish::stop;
    if (!strings_.empty()) {
        tail += decode_(token);
        for (const std::string& s : strings_)
            if (tail.find(s) != std::string::npos) return Finish::stop;
        // A later match can begin at most longest - 1 bytes back.
        if (tail.size() >= longest_) tail.erase(0, tail.size() - (longest_ - 1));
    }
    if (generated >= limit) return Finish::length;
    return std::nullopt;
}

}  // namespace fp8rl
