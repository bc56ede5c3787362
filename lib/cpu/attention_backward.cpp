// cpu/attention, gradient: one task a sequence and KV head, which alone writes that head's dk and dv; so
// nothing depends on threads or on the batch. Sequences with a past are defects.
#include <algorithm>

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/attention.h"
#include "cpu/attention_tile.h"
#include "cpu/buffer.h"
#include "cpu/simd.h"
#include "cpu/vec.h"

namespace fp8rl::cpu {
namespace {

// The gradients of one sequence and KV head; act, laid out like the tile's q and out.
struct BackwardTile {
    const void *out = nullptr, *dout = nullptr;
    void* dq = nullptr;
    void *dk = nullptr, *dv = nullptr;  // the first token's row of this KV head
    int64_t kv_stride = 0;
    float dq_factor = 1, dk_factor = 1, v_scale = 1;
};

// A thread's working memory; n tokens, 64 rows, 64 keys. Paired forms: attention_backward_kernels.inc.
template <class T>
struct BackwardWork {
    T *k, *v;                    // [n, D]
    T* k_turned;                 // [D, turned_stride]
    int64_t turned_stride;       // n rounded up to 2
    T* page;                     // one page of codes, expanded
    float *dk, *dv;              // [n, padded]
    T *q_rows, *dout_rows;       // [64, padded]
    T *q_lanes, *dout_lanes;     // paired over D, lanes over rows
    T *q_pairs, *dout_pairs;     // paired over rows, lanes over D
    float *token, *lse, *delta;  // [64]
    float *scores, *dp;          // [64 keys, 64 rows]
    T *p, *ds;                   // [64 keys, 64 rows]
    T* ds_pairs;                 // paired over keys, lanes over rows
    float* dq;                   // [D, 64 rows]
    float* dq_rows;              // [64, padded]
};

template <class T>
BackwardWork<T> take_work(Carver& c, int64_t n, const KvLayout& l) {
    BackwardWork<T> w;
    const int64_t d = l.head_dim, square = key_block * key_block;
    w.k = c.take<T>(n * d), w.v = c.take<T>(n * d);
    w.turned_stride = n + n % 2;
    w.k_turned = c.take<T>(d * w.turned_stride);
    w.page = c.take<T>((d + l.padded) * kv_page_tokens + 128);
    w.dk = c.take<float>(n * l.padded), w.dv = c.take<float>(n * l.padded);
    w.q_rows = c.take<T>(key_block * l.padded), w.dout_rows = c.take<T>(key_block * l.padded);
    w.q_lanes = c.take<T>(key_block * d), w.dout_lanes = c.take<T>(key_block * d);
    w.q_pairs = c.take<T>(key_block * l.padded), w.dout_pairs = c.take<T>(key_block * l.padded);
    w.token = c.take<float>(key_block), w.lse = c.take<float>(key_block), w.delta = c.take<float>(key_block);
    w.scores = c.take<float>(square), w.dp = c.take<float>(square);
    w.p = c.take<T>(square), w.ds = c.take<T>(square), w.ds_pairs = c.take<T>(square);
    w.dq = c.take<float>(d * key_block);
    w.dq_rows = c.take<float>(key_block * l.padded);
    return w;
}

}  // namespace
}  // namespace fp8rl::cpu

#define FP8RL_KERNELS_WITH_DOT
#define FP8RL_KERNELS "cpu/attention_backward_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q,
                        const KvLayer& kv, std::span<const Sequence> batch, const AttentionSpec& spec) {
    check_attention("attention_backward", q, kv, batch, spec);
    for (const Tensor& t : {dq, dout, out})
        check(same_shape(t, q) && t.dtype == q.dtype, "attention_backward: ", shape_text(t), " beside q ",
              shape_text(q));
    for (const Tensor& t : {dk, dv})
        check(t.rows() == q.rows() && t.cols() == int64_t{kv.kv_heads} * kv.head_dim && t.dtype == q.dtype,
              "attention_backward: ", shape_text(t), " for ", kv.kv_heads, " heads of ", kv.head_dim,
              " beside q ", shape_text(q));
    check(lse.size() == q.rows() * spec.heads, "attention_backward: lse ", shape_text(lse));
    int64_t longest = 0;
    for (const Sequence& s : batch) {
        check(s.past == 0, "attention_backward: a sequence with ", s.past, " past tokens");
        longest = std::max<int64_t>(longest, s.rows);
    }
    const KvLayout layout(kv.format, kv.kv_heads, kv.head_dim);
    const int64_t group = spec.heads / spec.kv_heads;
    with_act("attention_backward", q.dtype, [&](auto zero) {
        using T = decltype(zero);
        Carver measure(nullptr);
        take_work<T>(measure, longest, layout);
        static Buffer buffer;
        char* memory = buffer.array<char>(measure.used() * static_cast<size_t>(parallel::threads()));
        const auto backward_head = FP8RL_PICK(backward_head<T>);
        parallel::for_each(static_cast<int64_t>(batch.size()) * spec.kv_heads, [&](int64_t i, int worker) {
            const FlushToZero flush;
            const Sequence& s = batch[static_cast<size_t>(i / spec.kv_heads)];
            if (s.rows == 0) return;
            const int64_t h = i % spec.kv_heads, at = s.row * q.cols() + h * group * layout.head_dim;
            const AttentionRules rules(kv, spec, h);
            AttentionTile t;
            t.q = q.as<T>() + at;
            t.lse = lse.as<float>() + int64_t{s.row} * spec.heads + h * group;
            t.q_stride = q.cols(), t.lse_stride = spec.heads;
            t.tokens = s.rows, t.group = group;
            t.head = static_cast<const char*>(kv.pages) + static_cast<size_t>(h) * layout.head_bytes;
            t.pages = s.pages;
            BackwardTile g;
            g.out = out.as<T>() + at, g.dout = dout.as<T>() + at, g.dq = dq.as<T>() + at;
            g.kv_stride = dk.cols();
            g.dk = dk.as<T>() + s.row * dk.cols() + h * layout.head_dim;
            g.dv = dv.as<T>() + s.row * dk.cols() + h * layout.head_dim;
            const bool coded = kv.format == DType::e4m3;
            g.v_scale = coded ? kv.v_scale[h] : 1.0f;
            g.dq_factor = spec.scale * (coded ? kv.k_scale[h] : 1.0f);
            g.dk_factor = spec.scale * rules.q_scale;
            Carver c(memory + measure.used() * static_cast<size_t>(worker));
            backward_head(t, g, rules, layout, take_work<T>(c, longest, layout));
        });
    });
}

}  // namespace fp8rl::cpu
