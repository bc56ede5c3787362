// rollout/scheduler: which rows the next forward computes. Continuous batching over a paged cache, as pure
// logic: no backend, no model. Sequences are ordered (by group, then by request) and that order decides: the
// first waiting one is admitted first, the last running one is preempted first. Whoever comes back computes
// its prompt and its tokens again; what it sampled is kept. The order of requests, slots, pages and chunks
// change when something is computed, never what.
//
// A group's prompt is computed once, by its first member (the leader). The members take its pages over by
// reference, a page is copied before someone writes to it while others use it, and the leader's last hidden
// row gives each member its first token. While members still wait outside of the slots, the scheduler keeps
// the prompt's pages (it gives them up before it preempts anybody) and asks the engine to keep that one row.
//
// Refused: a sequence that could not be computed even alone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "rollout/episode.h"
#include "rollout/page_pool.h"

namespace fp8rl {

struct SchedulerConfig {
    int64_t slots = 64;   // sequences in work at once
    int64_t chunk = 512;  // prompt tokens (and recomputed ones) of one forward
    bool prefix_sharing = true;
};

// One forward. Rows that decode stand first.
struct Iteration {
    static constexpr int32_t kept = -1;

    struct Copy {
        int32_t to, from;  // pages
    };
    struct Draw {
        int32_t request;
        int32_t row;  // of this forward, or `kept`: the row kept by an earlier one
    };
    std::vector<Copy> copies;  // before the forward, in this order
    std::vector<int32_t> ids, positions;
    std::vector<Sequence> sequences;  // page tables stay valid until the next plan
    std::vector<Draw> draws;          // each needs one token from its row
    int32_t keep_row = kept;          // this row's hidden state must be kept, after the draws
    int64_t rows() const { return static_cast<int64_t>(ids.size()); }
};

struct SchedulerCounters {
    int64_t iterations = 0;
    int64_t prefill_tokens = 0;     // prompt rows computed, again included
    int64_t decode_tokens = 0;      // tokens drawn
    int64_t recomputed_tokens = 0;  // rows computed a second time after a preemption
    int64_t shared_tokens = 0;      // prompt rows not computed because a group member had
    int64_t preemptions = 0;
    int64_t max_pages = 0;  // in use at once
    void add(const SchedulerCounters& o);
};

class Scheduler {
  public:
    // episodes[i] answers requests[i]; its tokens are read here and appended by the caller. limits[i]: its
    // most completion tokens.
    Scheduler(std::span<const Request> requests, std::span<const Episode> episodes,
              std::span<const int64_t> limits, int64_t pages, const SchedulerConfig& config);

    // Plans the next forward; false when every request is finished. The caller runs it, appends one token to
    // the episode of each draw, and calls finish for those that ended.
    bool plan(Iteration& it);
    void finish(int32_t request);

    const SchedulerCounters& counters() const { return counters_; }
    const PagePool& pool() const { return pool_; }

  private:
    // A sequence in a slot. Its pages are page_table(slot)[0, pages).
    struct Running {
        int32_t request = 0;
        int32_t slot = 0;
        int32_t pages = 0;
        int32_t computed = 0;        // positions whose K and V are in its pages
        int32_t rows = 0;            // planned in this iteration
        int32_t row = 0;             // first of them in the batch
        bool awaits_prefix = false;  // its leader is at work; no pages yet
        bool draws_kept = false;     // first token comes from the kept row
    };
    enum class Prefix : uint8_t { none, computing, held };
    struct Group {
        Prefix prefix = Prefix::none;
        int32_t leader = -1;         // request, while computing
        int32_t waiting = 0;         // members outside of the slots
        std::vector<int32_t> pages;  // while held
    };

    int32_t length(int32_t request) const;  // prompt and completion so far
    int32_t prompt_length(int32_t request) const;
    int32_t final_pages(int32_t request) const;  // at its limit; the last token is never an input
    int32_t* page_table(const Running& s) {
        return tables_.data() + static_cast<size_t>(s.slot) * table_size_;
    }
    Group& group_of(const Running& s) {
        return groups_[static_cast<size_t>(group_[static_cast<size_t>(s.request)])];
    }

    void form_groups();
    void admit();
    bool has_room(int32_t request, const Group& group);
    int64_t reserved_pages();
    void adopt_prefix(Running& s, std::span<const int32_t> pages);
    void plan_rows(Iteration& it);
    bool make_room(size_t i, int32_t end, Iteration& it);
    bool free_some(size_t i);
    void preempt_last();
    void emit(Running& s, Iteration& it);
    void publish(size_t leader, int32_t row, Iteration& it);
    void drop_held();
    void release_pages(Running& s);

    std::span<const Request> requests_;
    std::span<const Episode> episodes_;
    std::span<const int64_t> limits_;
    SchedulerConfig config_;
    PagePool pool_;
    std::vector<int32_t> group_;    // of each request
    std::vector<int32_t> reached_;  // positions ever computed, of each request
    std::vector<Group> groups_;
    std::vector<int32_t> waiting_;  // requests; the next one is the last
    std::vector<Running> running_;  // by rank
    std::vector<int32_t> free_slots_;
    std::vector<int32_t> tables_;  // [slots, table_size]
    size_t table_size_ = 0;
    int32_t held_group_ = -1;
    SchedulerCounters counters_;
};

}  // namespace fp8rl
