// rollout/budget: worst cases of paging.
#include "rollout/budget.h"

#include <algorithm>

#include "core/text.h"

namespace fp8rl {

int64_t pages_needed(const RolloutShape& shape, int64_t slots) {
    slots = std::min(slots, shape.requests());
    int64_t alone = slots * shape.sequence_pages();
    if (!shape.prefix_sharing || shape.samples == 1) return alone;
    bool holds = slots < shape.requests();  // a prompt may be held for members outside of the slots
    int64_t groups = std::min(shape.prompts, slots + holds);
    // Beside full prompt pages: up to 15 tokens of the prompt share their page with the completion.
    int64_t own = std::min(shape.sequence_pages(), pages_for(kv_page_tokens - 2 + shape.max_new_tokens));
    int64_t shared = groups * (shape.prompt_tokens / kv_page_tokens) + slots * own + holds;
    return std::min(shared, alone + holds * pages_for(shape.prompt_tokens));
}

RolloutBudget choose_budget(const RolloutShape& shape, std::optional<int64_t> slots,
                            std::optional<int64_t> kv_memory, size_t page_bytes, size_t available,
                            int64_t most_slots) {
    check(page_bytes > 0 && shape.prompts >= 1 && shape.samples >= 1 && shape.prompt_tokens >= 1 &&
              shape.max_new_tokens >= 1 && most_slots >= 1,
          "rollout budget: sizes are at least 1");
    if (slots && *slots < 1) refuse("rollout.slots: ", *slots, "; allowed is auto or at least 1");
    if (kv_memory && *kv_memory < 0) refuse("rollout.kv_memory: ", *kv_memory, "; allowed is auto or bytes");
    size_t bytes = kv_memory ? static_cast<size_t>(*kv_memory) : available;
    int64_t fitting = static_cast<int64_t>(bytes / page_bytes);
    if (fitting < shape.sequence_pages())
        refuse(kv_memory ? "rollout.kv_memory: " : "rollout: the KV cache gets ", text::human_bytes(bytes),
               ", ", fitting, " pages of ", text::human_bytes(page_bytes), "; one sequence of ",
               shape.prompt_tokens, " prompt and ", shape.max_new_tokens, " new tokens needs ",
               shape.sequence_pages());
    RolloutBudget b;
    b.slots = std::min(slots ? *slots : most_slots, shape.requests());
    if (!slots)
        while (b.slots > 1 && pages_needed(shape, b.slots) > fitting) --b.slots;
    int64_t needed = std::max(pages_needed(shape, b.slots), shape.sequence_pages());
    b.pages = std::min(needed, fitting);
    b.may_preempt = b.pages < pages_needed(shape, b.slots);
    b.bytes = static_cast<size_t>(b.pages) * page_bytes;
    return b;
}

}  // namespace fp8rl
