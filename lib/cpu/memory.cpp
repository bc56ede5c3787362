// cpu/memory: large blocks come from mmap (zero pages, huge where the kernel offers them: a decode step reads
// every weight, and 4 KiB pages cost it address translations), small ones from the heap.
#include "cpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "core/parallel.h"
#include "cpu/buffer.h"
#include "cpu/thread_scratch.h"
#include "quant/formats.h"

namespace fp8rl::cpu {
namespace {

constexpr size_t huge_page = size_t{2} << 20;
constexpr int64_t copy_grain = 1 << 16;  // elements

struct Mapping {
    void* base;
    size_t bytes;
};

std::mutex lock;
std::map<void*, Mapping>& mappings() {
    static std::map<void*, Mapping> m;
    return m;
}

template <class To, class From>
void convert(To* to, const From* from, int64_t n) {
    parallel::for_range(n, copy_grain, [=](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
            if constexpr (sizeof(To) == 4)
                to[i] = to_float(from[i]);
            else
                to[i] = to_bf16(from[i]);
        }
    });
}

}  // namespace

size_t memory_bytes() {
    return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void* allocate(size_t bytes) {
    if (bytes < 2 * huge_page) {
        const size_t rounded = (bytes + Arena::alignment) / Arena::alignment * Arena::alignment;
        void* p = std::aligned_alloc(Arena::alignment, rounded);
        if (!p) device_failed("out of memory: ", bytes, " bytes");
        return std::memset(p, 0, rounded);
    }
    const size_t mapped = bytes + huge_page;
    void* base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) device_failed("out of memory: ", bytes, " bytes");
    const uintptr_t aligned = (reinterpret_cast<uintptr_t>(base) + huge_page - 1) / huge_page * huge_page;
    void* p = reinterpret_cast<void*>(aligned);
    madvise(p, bytes, MADV_HUGEPAGE);  // advice only: without it the result is slower, not wrong
    std::lock_guard guard(lock);
    mappings()[p] = {base, mapped};
    return p;
}

void release(void* p) {
    if (!p) return;
    std::lock_guard guard(lock);
    if (auto it = mappings().find(p); it != mappings().end()) {
        munmap(it->second.base, it->second.bytes);
        mappings().erase(it);
    } else {
        std::free(p);
    }
}

size_t workspace_bytes() {
    return thread_scratch_bytes * static_cast<size_t>(parallel::threads()) + buffer_bytes();
}

void zero(Tensor t) {
    char* p = static_cast<char*>(t.data);
    parallel::for_range(static_cast<int64_t>(t.bytes()), copy_grain, [=](int64_t begin, int64_t end, int) {
        std::memset(p + begin, 0, static_cast<size_t>(end - begin));
    });
}

void copy(Tensor dst, Tensor src) {
    if (dst.size() != src.size() || dst.cols() != src.cols())
        defect("copy: ", shape_text(src), " to ", shape_text(dst));
    if (dst.dtype == src.dtype) {
        char* to = static_cast<char*>(dst.data);
        const char* from = static_cast<const char*>(src.data);
        parallel::for_range(static_cast<int64_t>(dst.bytes()), copy_grain,
                            [=](int64_t begin, int64_t end, int) {
                                std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
                            });
    } else if (dst.dtype == DType::f32 && src.dtype == DType::bf16) {
        convert(dst.as<float>(), src.as<bf16>(), dst.size());
    } else if (dst.dtype == DType::bf16 && src.dtype == DType::f32) {
        convert(dst.as<bf16>(), src.as<float>(), dst.size());
    } else {
        defect("copy: ", shape_text(src), " to ", shape_text(dst));
    }
}

}  // namespace fp8rl::cpu
