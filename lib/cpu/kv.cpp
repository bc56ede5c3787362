// cpu/kv: writes tokens into pages and codes them on the way; amax and counts are exact whatever the threads
// do. Formats and head sizes that the layout lacks are defects.
#include "cpu/kv.h"

#include <atomic>
#include <cstring>

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/cpu_backend.h"
#include "cpu/vec.h"

#define FP8RL_KERNELS "cpu/kv_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

KvLayout::KvLayout(DType type, int kv_heads, int d) : format(type), head_dim(d), padded((d + 15) / 16 * 16) {
    check(type == DType::f32 || type == DType::bf16 || type == DType::e4m3, "KV cache of ", name_of(type),
          ": f32, bf16 or e4m3");
    check(kv_heads > 0 && d > 0 && d % 2 == 0 && d <= 256, "KV cache: ", kv_heads, " heads of ", d,
          ": the head size is even and at most 256");
    k_bytes = static_cast<size_t>(head_dim) * kv_page_tokens * size_of(type);
    head_bytes = k_bytes + static_cast<size_t>(padded) * kv_page_tokens * size_of(type);
    page_bytes = head_bytes * static_cast<size_t>(kv_heads);
}

size_t kv_page_bytes(DType format, int kv_heads, int head_dim) {
    return KvLayout(format, kv_heads, head_dim).page_bytes;
}

void raise_to(float* to, float x) {
    std::atomic_ref<float> value(*to);
    float seen = value.load(std::memory_order_relaxed);
    while (x > seen && !value.compare_exchange_weak(seen, x, std::memory_order_relaxed)) {
    }
}

namespace {

void add_counts(QuantCounts* to, const QuantCounts& c) {
    std::atomic_ref(to->values).fetch_add(c.values, std::memory_order_relaxed);
    std::atomic_ref(to->saturated).fetch_add(c.saturated, std::memory_order_relaxed);
    std::atomic_ref(to->flushed).fetch_add(c.flushed, std::memory_order_relaxed);
}

// Where a token's elements of one head lie, counted from the head's K or V of the page: d at first + d / 2 *
// pair + d % 2 * half.
struct Places {
    int64_t first, pair, half;
};
Places k_places(const KvLayout& l, int64_t token) {
    return {l.k_index(token, 0), 2 * kv_page_tokens, l.k_index(0, 1)};
}
Places v_places(const KvLayout& l, int64_t token) {
    return {l.v_index(token, 0), 2 * l.v_index(0, 1), l.v_index(0, 1)};
}

// One head's K or V of a run of tokens. E is the element of the cache.
template <class T, class E>
void store_head(const KvLayout& layout, char* pages, size_t offset,
                Places (*places)(const KvLayout&, int64_t), const Sequence& s, const T* x, int64_t stride,
                float scale, float* amax, QuantCounts* counts) {
    const auto largest = FP8RL_PICK(largest_magnitude<T>);
    const auto encode_row = FP8RL_PICK(codes_of<T>);
    float seen = 0;
    QuantCounts row_counts;
    for (int32_t i = 0; i < s.rows; ++i) {
        const T* row = x + (int64_t{s.row} + i) * stride;
        const int32_t position = s.past + i;
        const Places at = places(layout, position % kv_page_tokens);
        E* to = reinterpret_cast<E*>(
                    pages + static_cast<size_t>(s.pages[position / kv_page_tokens]) * layout.page_bytes +
                    offset) +
                at.first;
        if (amax) seen = largest(row, layout.head_dim, seen);
        uint8_t codes[256];
        const E* from;
        if constexpr (sizeof(E) == 1) {
            encode_row(codes, row, scale, layout.head_dim, row_counts);
            from = codes;
        } else {
            from = row;
        }
        for (int64_t d = 0; d < layout.head_dim; d += 2, to += at.pair)
            to[0] = from[d], to[at.half] = from[d + 1];
    }
    if (amax) raise_to(amax, seen);
    if (counts) add_counts(counts, row_counts);
}

template <class T, class E>
void append(const KvLayer& kv, const KvLayout& layout, const Tensor& k, const Tensor& v,
            std::span<const Sequence> batch) {
    const int64_t heads = kv.kv_heads;
    parallel::for_each(static_cast<int64_t>(batch.size()) * heads * 2, [&](int64_t i, int) {
        const Sequence& s = batch[static_cast<size_t>(i / (heads * 2))];
        const int64_t h = i / 2 % heads, column = h * layout.head_dim;
        char* pages = static_cast<char*>(kv.pages);
        const size_t head = static_cast<size_t>(h) * layout.head_bytes;
        const bool coded = sizeof(E) == 1;
        if (i % 2 == 0)
            store_head<T, E>(layout, pages, head, k_places, s, k.as<T>() + column, k.cols(),
                             coded ? kv.k_scale[h] : 1, kv.k_amax ? kv.k_amax + h : nullptr, kv.k_counts);
        else
            store_head<T, E>(layout, pages, head + layout.k_bytes, v_places, s, v.as<T>() + column, v.cols(),
                             coded ? kv.v_scale[h] : 1, kv.v_amax ? kv.v_amax + h : nullptr, kv.v_counts);
    });
}

}  // namespace

void kv_append(const KvLayer& kv, Tensor k, Tensor v, std::span<const Sequence> batch) {
    const KvLayout layout(kv.format, kv.kv_heads, kv.head_dim);
    check(same_shape(k, v) && k.dtype == v.dtype && k.cols() == int64_t{kv.kv_heads} * kv.head_dim,
          "kv_append: k ", shape_text(k), ", v ", shape_text(v), " for ", kv.kv_heads, " heads of ",
          kv.head_dim);
    check(kv.format != DType::e4m3 || (kv.k_scale && kv.v_scale), "kv_append: an e4m3 cache needs scales");
    for (const Sequence& s : batch)
        check(s.row >= 0 && s.rows >= 0 && int64_t{s.row} + s.rows <= k.rows() && s.past >= 0 &&
                  (s.pages || s.rows == 0),
              "kv_append: sequence at row ", s.row, " with ", s.rows, " rows of ", k.rows());
    if (kv.format == DType::f32 && k.dtype == DType::f32)
        append<float, float>(kv, layout, k, v, batch);
    else if (kv.format == DType::bf16 && k.dtype == DType::bf16)
        append<bf16, bf16>(kv, layout, k, v, batch);
    else if (kv.format == DType::e4m3)
        with_act("kv_append", k.dtype,
                 [&](auto zero) { append<decltype(zero), uint8_t>(kv, layout, k, v, batch); });
    else
        defect("kv_append: ", name_of(k.dtype), " into a cache of ", name_of(kv.format));
}

void kv_copy_page(const KvLayer& kv, int32_t dst, int32_t src) {
    const size_t bytes = kv_page_bytes(kv.format, kv.kv_heads, kv.head_dim);
    char* pages = static_cast<char*>(kv.pages);
    std::memmove(pages + static_cast<size_t>(dst) * bytes, pages + static_cast<size_t>(src) * bytes, bytes);
}

}  // namespace fp8rl::cpu
