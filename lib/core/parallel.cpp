#include "core/parallel.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace fp8rl::parallel {
namespace {

thread_local bool inside = false;

void pause_cpu() {
#if defined(__x86_64__)
    _mm_pause();
#endif
}

// About 20 microseconds of spinning: longer than the serial part between two ops, shorter than a time slice.
constexpr int spin_limit = 2000;

class Pool {
  public:
    explicit Pool(int n) {
        for (int id = 1; id < n; ++id) workers_.emplace_back([this, id] { serve(id); });
    }
    ~Pool() {
        stop_.store(true);
        generation_.fetch_add(1, std::memory_order_release);
        generation_.notify_all();
        for (auto& t : workers_) t.join();
    }
    int size() const { return static_cast<int>(workers_.size()) + 1; }

    void run(int64_t chunks, FunctionRef<void(int64_t, int)> body) {
        body_ = &body;
        chunks_ = chunks;
        error_ = nullptr;
        next_.store(0, std::memory_order_relaxed);
        busy_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
        generation_.fetch_add(1, std::memory_order_release);
        if (sleepers_.load() > 0) generation_.notify_all();
        work(0);
        for (int spins = 0;;) {
            int left = busy_.load(std::memory_order_acquire);
            if (left == 0) break;
            if (++spins < spin_limit)
                pause_cpu();
            else
                busy_.wait(left, std::memory_order_acquire);
        }
        if (error_) std::rethrow_exception(error_);
    }

  private:
    void serve(int id) {
        uint32_t seen = 0;
        for (;;) {
            int spins = 0;
            uint32_t now;
            while ((now = generation_.load(std::memory_order_acquire)) == seen) {
                if (++spins < spin_limit) {
                    pause_cpu();
                } else {
                    // Announced before the last look, so that run() either sees the sleeper or the sleeper
                    // sees the work.
                    sleepers_.fetch_add(1);
                    generation_.wait(seen, std::memory_order_acquire);
                    sleepers_.fetch_sub(1);
                }
            }
            seen = now;
            if (stop_.load()) return;
            work(id);
            if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
        }
    }
    void work(int id) {
        inside = true;
        try {
            for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < chunks_;) (*body_)(i, id);
        } catch (...) {
            std::lock_guard lock(error_lock_);
            if (!error_) error_ = std::current_exception();
            next_.store(chunks_, std::memory_order_relaxed);
        }
        inside = false;
    }

    std::vector<std::thread> workers_;
    const FunctionRef<void(int64_t, int)>* body_ = nullptr;
    int64_t chunks_ = 0;
    std::exception_ptr error_;
    std::mutex error_lock_;
    alignas(64) std::atomic<int64_t> next_{0};
    alignas(64) std::atomic<uint32_t> generation_{0};
    std::atomic<int> sleepers_{0};
    std::atomic<bool> stop_{false};
    alignas(64) std::atomic<int> busy_{0};
};

std::unique_ptr<Pool>& pool() {
    static std::unique_ptr<Pool> p = std::make_unique<Pool>(available_threads());
    return p;
}

}  // namespace

int available_threads() {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
    return std::max(1u, std::thread::hardware_concurrency());
}

int threads() { return pool()->size(); }

void set_threads(int n) {
    check(!inside, "set_threads inside a parallel region");
    check(n >= 1 && n <= 1024, "threads: ", n, " is outside 1..1024");
    if (pool()->size() != n) pool() = std::make_unique<Pool>(n);
}

void for_each(int64_t chunks, FunctionRef<void(int64_t, int)> body) {
    if (chunks <= 0) return;
    if (inside || chunks == 1 || pool()->size() == 1) {
        for (int64_t i = 0; i < chunks; ++i) body(i, 0);
        return;
    }
    pool()->run(chunks, body);
}

void for_range(int64_t n, int64_t grain, FunctionRef<void(int64_t, int64_t, int)> body) {
    if (n <= 0) return;
    // Four pieces a thread: enough for a late thread to be helped, few enough to stay cheap.
    int64_t pieces = std::clamp<int64_t>(n / std::max<int64_t>(1, grain), 1, int64_t{4} * threads());
    for_each(pieces, [&](int64_t i, int worker) { body(n * i / pieces, n * (i + 1) / pieces, worker); });
}

}  // namespace fp8rl::parallel
