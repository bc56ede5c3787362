// rollout/scheduler: admission, planning of rows, page sharing and preemption. Pages are granted in the order
// of sequences, so whoever gives one up has no rows in the forward being planned.
#include "rollout/scheduler.h"

#include <algorithm>
#include <unordered_map>

namespace fp8rl {

void SchedulerCounters::add(const SchedulerCounters& o) {
    iterations += o.iterations;
    prefill_tokens += o.prefill_tokens;
    decode_tokens += o.decode_tokens;
    recomputed_tokens += o.recomputed_tokens;
    shared_tokens += o.shared_tokens;
    preemptions += o.preemptions;
    max_pages = std::max(max_pages, o.max_pages);
}

Scheduler::Scheduler(std::span<const Request> requests, std::span<const Episode> episodes,
                     std::span<const int64_t> limits, int64_t pages, const SchedulerConfig& config)
    : requests_(requests), episodes_(episodes), limits_(limits), config_(config), pool_(pages) {
    check(episodes.size() == requests.size() && limits.size() == requests.size(),
          "scheduler: one episode and one limit a request");
    check(config.slots >= 1 && config.chunk >= 1, "scheduler: at least one slot and a chunk of one token");
    for (size_t i = 0; i < requests.size(); ++i) {
        int32_t r = static_cast<int32_t>(i);
        if (requests[i].prompt.empty())
            refuse("rollout: prompt ", requests[i].prompt_index, " has no tokens");
        if (final_pages(r) > pages)
            refuse("rollout: prompt ", requests[i].prompt_index, ": ", requests[i].prompt.size(),
                   " prompt tokens and up to ", limits[i], " new ones need ", final_pages(r),
                   " pages of the KV cache, which has ", pages,
                   "; raise rollout.kv_memory or lower rollout.max_new_tokens");
        table_size_ = std::max(table_size_, static_cast<size_t>(final_pages(r)));
    }
    int64_t slots = std::min<int64_t>(config.slots, static_cast<int64_t>(requests.size()));
    tables_.resize(static_cast<size_t>(slots) * table_size_);
    for (int64_t s = slots; s-- > 0;) free_slots_.push_back(static_cast<int32_t>(s));
    running_.reserve(static_cast<size_t>(slots));
    reached_.assign(requests.size(), 0);
    form_groups();
}

int32_t Scheduler::prompt_length(int32_t request) const {
    return static_cast<int32_t>(requests_[static_cast<size_t>(request)].prompt.size());
}

int32_t Scheduler::length(int32_t request) const {
    return prompt_length(request) +
           static_cast<int32_t>(episodes_[static_cast<size_t>(request)].tokens.size());
}

int32_t Scheduler::final_pages(int32_t request) const {
    return static_cast<int32_t>(
        pages_for(prompt_length(request) + limits_[static_cast<size_t>(request)] - 1));
}

// Requests of one prompt stand together from here on, in the order in which their groups first appear.
void Scheduler::form_groups() {
    std::unordered_map<int32_t, int32_t> known;  // prompt index -> group
    std::vector<int32_t> first;                  // a request of each group
    group_.resize(requests_.size());
    for (size_t i = 0; i < requests_.size(); ++i) {
        const Request& r = requests_[i];
        auto at = known.find(r.prompt_index);
        bool joins = false;
        if (config_.prefix_sharing && at != known.end()) {
            auto other = requests_[static_cast<size_t>(first[static_cast<size_t>(at->second)])].prompt;
            joins = std::equal(r.prompt.begin(), r.prompt.end(), other.begin(), other.end());
        }
        if (!joins) {
            known[r.prompt_index] = static_cast<int32_t>(groups_.size());
            groups_.emplace_back();
            first.push_back(static_cast<int32_t>(i));
        }
        group_[i] = known[r.prompt_index];
        ++groups_[static_cast<size_t>(group_[i])].waiting;
        waiting_.push_back(static_cast<int32_t>(i));
    }
    std::stable_sort(waiting_.begin(), waiting_.end(), [&](int32_t a, int32_t b) {
        return group_[static_cast<size_t>(a)] < group_[static_cast<size_t>(b)];
    });
    std::reverse(waiting_.begin(), waiting_.end());
}

bool Scheduler::plan(Iteration& it) {
    it.copies.clear();
    it.ids.clear();
    it.positions.clear();
    it.sequences.clear();
    it.draws.clear();
    it.keep_row = Iteration::kept;
    if (waiting_.empty() && running_.empty()) {
        check(pool_.used() == 0, "scheduler: ", pool_.used(), " pages of the KV cache were not given back");
        return false;
    }
    admit();
    plan_rows(it);
    for (Running& s : running_)
        if (s.rows == 1 && length(s.request) - s.computed == 1) emit(s, it);
    for (Running& s : running_)
        if (s.rows > 0) emit(s, it);
    for (Running& s : running_)
        if (s.draws_kept) {
            it.draws.push_back({s.request, Iteration::kept});
            s.draws_kept = false;
        }
    check(it.rows() > 0 || !it.draws.empty(), "scheduler: nothing to do, yet ", running_.size(),
          " sequences run");
    ++counters_.iterations;
    counters_.decode_tokens += static_cast<int64_t>(it.draws.size());
    counters_.max_pages = pool_.max_used();
    return true;
}

void Scheduler::finish(int32_t request) {
    auto s = std::find_if(running_.begin(), running_.end(),
                          [&](const Running& r) { return r.request == request; });
    check(s != running_.end(), "scheduler: request ", request, " is finished but does not run");
    release_pages(*s);
    running_.erase(s);
}

void Scheduler::release_pages(Running& s) {
    int32_t* table = page_table(s);
    for (int32_t p = 0; p < s.pages; ++p) pool_.release(table[p]);
    s.pages = 0;
    free_slots_.push_back(s.slot);
}

// ---- admission ----

// Pages that a sequence wants for itself soon: up to its next token, beside full pages of a shared prompt.
static int32_t wanted(int32_t length, int32_t final_pages, int32_t shared_tokens) {
    return std::min(final_pages, static_cast<int32_t>(pages_for(length + 1))) -
           shared_tokens / kv_page_tokens;
}

// What the running sequences want soon and do not have yet.
int64_t Scheduler::reserved_pages() {
    int64_t sum = 0;
    for (const Running& s : running_) {
        if (s.awaits_prefix) {
            sum += wanted(length(s.request), final_pages(s.request), prompt_length(s.request));
            continue;
        }
        int32_t more = wanted(length(s.request), final_pages(s.request), 0) - s.pages;
        int32_t next = s.computed / kv_page_tokens;
        if (next < s.pages && pool_.users(page_table(s)[next]) > 1) ++more;  // a copy
        sum += std::max(0, more);
    }
    return sum;
}

bool Scheduler::has_room(int32_t request, const Group& group) {
    if (running_.empty()) return true;  // the constructor refused what does not fit alone
    int32_t shared = group.prefix == Prefix::none ? 0 : prompt_length(request);
    return pool_.available() >= wanted(length(request), final_pages(request), shared) + reserved_pages();
}

void Scheduler::admit() {
    while (!waiting_.empty() && !free_slots_.empty()) {
        int32_t request = waiting_.back();
        int32_t group_index = group_[static_cast<size_t>(request)];
        Group& group = groups_[static_cast<size_t>(group_index)];
        if (!has_room(request, group)) return;
        waiting_.pop_back();
        --group.waiting;
        Running s;
        s.request = request;
        s.slot = free_slots_.back();
        free_slots_.pop_back();
        switch (group.prefix) {
            case Prefix::computing: s.awaits_prefix = true; break;
            case Prefix::held:
                adopt_prefix(s, group.pages);
                s.draws_kept = s.computed == length(request);
                if (group.waiting == 0) drop_held();
                break;
            case Prefix::none:
                group.prefix = Prefix::computing;
                group.leader = request;
                break;
        }
        running_.push_back(s);
        if (group.leader == request) {
            // At once, so that the next admission sees what is left.
            int32_t* table = page_table(s);
            for (int64_t n = pages_for(length(request)); running_.back().pages < n;) {
                if (auto page = pool_.allocate())
                    table[running_.back().pages++] = *page;
                else
                    check(free_some(running_.size() - 1), "scheduler: a sequence does not fit alone");
            }
        }
    }
}

void Scheduler::adopt_prefix(Running& s, std::span<const int32_t> pages) {
    int32_t* table = page_table(s);
    for (int32_t page : pages) {
        pool_.share(page);
        table[s.pages++] = page;
    }
    s.computed = prompt_length(s.request);
    s.awaits_prefix = false;
    counters_.shared_tokens += s.computed;
}

// ---- rows and pages of one forward ----

void Scheduler::plan_rows(Iteration& it) {
    int64_t budget = config_.chunk;
    for (Running& s : running_) s.rows = 0;
    for (size_t i = 0; i < running_.size(); ++i) {
        Running& s = running_[i];
        int32_t left = length(s.request) - s.computed;
        if (s.awaits_prefix || left == 0) continue;
        bool decodes = left == 1;
        int32_t rows = decodes ? 1 : static_cast<int32_t>(std::min<int64_t>(left, budget));
        if (rows == 0) continue;
        if (!make_room(i, s.computed + rows, it)) return;
        s.rows = rows;
        if (!decodes) budget -= rows;
    }
}

// Pages for positions [computed, end) of running_[i], writable. False: it was preempted itself, as the last.
bool Scheduler::make_room(size_t i, int32_t end, Iteration& it) {
    Running& s = running_[i];
    int32_t* table = page_table(s);
    int32_t first = s.computed / kv_page_tokens;
    while (first < s.pages && pool_.users(table[first]) > 1) {
        if (auto page = pool_.allocate()) {
            it.copies.push_back({*page, table[first]});
            pool_.release(table[first]);
            table[first] = *page;
        } else if (!free_some(i)) {
            return false;
        }
    }
    while (s.pages < pages_for(end)) {
        if (auto page = pool_.allocate())
            table[s.pages++] = *page;
        else if (!free_some(i))
            return false;
    }
    return true;
}

// Gives something up for running_[i]: the held prompt, else the last sequence. False: that was i itself.
bool Scheduler::free_some(size_t i) {
    if (held_group_ >= 0) {
        drop_held();
        return true;
    }
    check(running_.size() > 1, "scheduler: a sequence does not fit alone");
    preempt_last();
    return running_.size() > i;
}

void Scheduler::preempt_last() {
    Running& s = running_.back();
    Group& group = group_of(s);
    if (group.leader == s.request) {
        group.prefix = Prefix::none;
        group.leader = -1;
    }
    if (s.computed > 0) ++counters_.preemptions;
    release_pages(s);
    waiting_.push_back(s.request);
    ++group.waiting;
    running_.pop_back();
}

void Scheduler::emit(Running& s, Iteration& it) {
    const Request& request = requests_[static_cast<size_t>(s.request)];
    const std::vector<int32_t>& tokens = episodes_[static_cast<size_t>(s.request)].tokens;
    int32_t prompt = prompt_length(s.request);
    int32_t begin = s.computed, end = begin + s.rows;
    s.row = static_cast<int32_t>(it.rows());
    it.sequences.push_back({s.row, s.rows, begin, page_table(s)});
    for (int32_t p = begin; p < end; ++p) {
        it.ids.push_back(p < prompt ? request.prompt[static_cast<size_t>(p)]
                                    : tokens[static_cast<size_t>(p - prompt)]);
        it.positions.push_back(p);
    }
    int32_t& reached = reached_[static_cast<size_t>(s.request)];
    counters_.prefill_tokens += std::max(0, std::min(end, prompt) - begin);
    counters_.recomputed_tokens += std::max(0, std::min(end, reached) - begin);
    reached = std::max(reached, end);
    s.computed = end;
    s.rows = 0;
    if (end == length(s.request)) it.draws.push_back({s.request, s.row + end - begin - 1});
    if (group_of(s).leader == s.request && end >= prompt)
        publish(static_cast<size_t>(&s - running_.data()), s.row + prompt - 1 - begin, it);
}

// The leader's prompt is computed (by the forward being planned): the members in slots take it over, and it
// is held while others wait outside. Nobody writes to these pages before that forward has run.
void Scheduler::publish(size_t leader, int32_t row, Iteration& it) {
    Group& group = group_of(running_[leader]);
    std::span<const int32_t> pages(page_table(running_[leader]),
                                   static_cast<size_t>(pages_for(prompt_length(running_[leader].request))));
    group.prefix = Prefix::none;
    group.leader = -1;
    for (Running& s : running_) {
        if (!s.awaits_prefix || &group_of(s) != &group) continue;
        adopt_prefix(s, pages);
        if (s.computed == length(s.request)) it.draws.push_back({s.request, row});
    }
    if (group.waiting == 0) return;
    check(held_group_ < 0, "scheduler: two prompts held at once");
    group.prefix = Prefix::held;
    group.pages.assign(pages.begin(), pages.end());
    for (int32_t page : pages) pool_.share(page);
    held_group_ = static_cast<int32_t>(&group - groups_.data());
    it.keep_row = row;
}

void Scheduler::drop_held() {
    Group& group = groups_[static_cast<size_t>(held_group_)];
    for (int32_t page : group.pages) pool_.release(page);
    group.pages.clear();
    group.prefix = Prefix::none;
    held_group_ = -1;
}

}  // namespace fp8rl
