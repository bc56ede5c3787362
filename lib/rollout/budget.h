// rollout/budget: how many sequences decode at once and how many pages they get. Arithmetic only: the plan
// asks before anything is allocated. Refused: memory in which not even one sequence fits, zero slots.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "rollout/page_pool.h"

namespace fp8rl {

// What a rollout may have to hold.
struct RolloutShape {
    int64_t prompts = 1;         // different ones in one generate
    int64_t samples = 1;         // of each
    int64_t prompt_tokens = 1;   // of the longest
    int64_t max_new_tokens = 1;  // the last one is never an input
    bool prefix_sharing = true;

    int64_t requests() const { return prompts * samples; }
    int64_t sequence_pages() const { return pages_for(prompt_tokens + max_new_tokens - 1); }
};

// Pages with which `slots` sequences never wait and are never preempted, in the worst case. Running sequences
// belong to at most `prompts` groups, each of which holds its full prompt pages once; one more group may be
// held for members outside of the slots.
int64_t pages_needed(const RolloutShape& shape, int64_t slots);

struct RolloutBudget {
    int64_t slots = 0, pages = 0;
    size_t bytes = 0;
    bool may_preempt = false;  // fewer pages than the worst case needs
};

// slots and kv_memory (bytes) as in the recipe, absent: auto. `available`: bytes that auto may use.
// Both auto: all requests up to `most_slots`, fewer when their worst case does not fit `available`. Only
// memory given: as many slots as never preempt in it. Only slots given: what they need, as far as memory
// goes. Both: as given.
RolloutBudget choose_budget(const RolloutShape& shape, std::optional<int64_t> slots,
                            std::optional<int64_t> kv_memory, size_t page_bytes, size_t available,
                            int64_t most_slots = 256);

}  // namespace fp8rl
