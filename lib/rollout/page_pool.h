// rollout/page_pool: who uses which page of the KV cache. A page is free or has a count of users; sequences
// with a common prompt count the same page several times and must copy it before they write. Handing out more
// than there is, or taking back what is free, does not happen: allocate says no, the rest is a defect.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/types.h"

namespace fp8rl {

// Pages that hold `tokens` positions.
constexpr int64_t pages_for(int64_t tokens) { return (tokens + kv_page_tokens - 1) / kv_page_tokens; }

class PagePool {
  public:
    explicit PagePool(int64_t pages) : users_(static_cast<size_t>(pages), 0) {
        free_.reserve(users_.size());
        for (int64_t p = pages; p-- > 0;) free_.push_back(static_cast<int32_t>(p));
    }

    // A page with one user, or nothing when none is free.
    std::optional<int32_t> allocate() {
        if (free_.empty()) return std::nullopt;
        int32_t page = free_.back();
        free_.pop_back();
        users_[static_cast<size_t>(page)] = 1;
        max_used_ = std::max(max_used_, used());
        return page;
    }
    void share(int32_t page) {
        check(users(page) > 0, "page ", page, " shared while free");
        ++users_[static_cast<size_t>(page)];
    }
    void release(int32_t page) {
        check(users(page) > 0, "page ", page, " released twice");
        if (--users_[static_cast<size_t>(page)] == 0) free_.push_back(page);
    }

    int32_t users(int32_t page) const { return users_[static_cast<size_t>(page)]; }
    int64_t pages() const { return static_cast<int64_t>(users_.size()); }
    int64_t available() const { return static_cast<int64_t>(free_.size()); }
    int64_t used() const { return pages() - available(); }
    int64_t max_used() const { return max_used_; }

  private:
    std::vector<int32_t> free_;
    std::vector<int32_t> users_;
    int64_t max_used_ = 0;
};

}  // namespace fp8rl
