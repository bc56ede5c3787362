// cpu/attention, forward: cuts a batch into tiles of about 48 rows and, where few tiles have long contexts,
// into chunks of keys; no cut changes a bit (cpu/attention.h). Operands that do not fit together are defects.
#include "cpu/attention.h"

#include <algorithm>
#include <vector>

#include "core/parallel.h"
#include "cpu/act.h"
#include "cpu/attention_tile.h"
#include "cpu/buffer.h"
#include "cpu/simd.h"
#include "cpu/vec.h"

#define FP8RL_KERNELS_WITH_DOT
#define FP8RL_KERNELS "cpu/attention_kernels.inc"
#include "cpu/each_simd.inc"

namespace fp8rl::cpu {

AttentionRules::AttentionRules(const KvLayer& kv, const AttentionSpec& spec, int64_t h) : fp8(spec.fp8) {
    const bool coded = kv.format == DType::e4m3;
    q_scale = spec.fp8 ? spec.q_scale[h] : 1.0f;
    score_factor = spec.scale * (coded ? kv.k_scale[h] : 1.0f) * q_scale;
    out_factor = (coded ? kv.v_scale[h] : 1.0f) * (spec.fp8 ? 1.0f / 256.0f : 1.0f);
}

void check_attention(const char* op, const Tensor& q, const KvLayer& kv, std::span<const Sequence> batch,
                     const AttentionSpec& spec) {
    check(spec.kv_heads > 0 && spec.heads % spec.kv_heads == 0 && spec.kv_heads == kv.kv_heads &&
              spec.head_dim == kv.head_dim && q.cols() == int64_t{spec.heads} * spec.head_dim,
          op, ": q ", shape_text(q), ", ", spec.heads, " heads of ", spec.head_dim, ", cache of ",
          kv.kv_heads, " heads of ", kv.head_dim);
    check(q.dtype == DType::f32 ? kv.format == DType::f32
                                : kv.format == DType::bf16 || kv.format == DType::e4m3,
          op, ": ", name_of(q.dtype), " queries on a cache of ", name_of(kv.format));
    check(kv.format != DType::e4m3 || (kv.k_scale && kv.v_scale), op, ": an e4m3 cache needs scales");
    check(!spec.fp8 || (kv.format == DType::e4m3 && spec.q_scale), op,
          ": FP8 attention needs an e4m3 cache and scales of Q");
    for (const Sequence& s : batch)
        check(s.row >= 0 && s.rows >= 0 && s.past >= 0 && int64_t{s.row} + s.rows <= q.rows() &&
                  (s.pages || s.rows == 0),
              op, ": sequence at row ", s.row, " with ", s.rows, " rows of ", q.rows());
}

namespace {

constexpr int64_t rows_of_tile = 48;  // Q, scores, P and sums of a tile: about 40 KB at D = 64

struct Task {
    const Sequence* sequence;
    int64_t kv_head, first_token, tokens;
    int64_t chunks;
    int64_t slot;  // of its first chunk's state, when chunks are shared out
};

AttentionState take_state(Carver& c, int64_t rows, int64_t padded) {
    return {c.take<float>(rows), c.take<float>(rows), c.take<float>(rows * padded)};
}

template <class T>
AttentionWork take_work(Carver& c, int64_t rows, const KvLayout& l) {
    AttentionWork w;
    w.total = take_state(c, rows, l.padded);
    w.chunk = take_state(c, rows, l.padded);
    w.q = c.take<T>(rows * l.head_dim);
    w.scores = c.take<float>(rows * key_block);
    w.p = c.take<T>(rows * key_block);
    w.k = c.take<T>(key_block * l.head_dim + 64);
    w.v = c.take<T>(key_block * l.padded);
    w.v_row = c.take<T>(key_block * l.padded);
    w.factor = c.take<float>(rows);
    return w;
}

// One call's operands, and what the tasks share.
template <class T>
class Forward {
  public:
    Forward(Tensor out, Tensor lse, Tensor q, const KvLayer& kv, const AttentionSpec& spec)
        : out_(out),
          lse_(lse),
          q_(q),
          kv_(kv),
          spec_(spec),
          layout_(kv.format, kv.kv_heads, kv.head_dim),
          group_(spec.heads / spec.kv_heads),
          tile_tokens_(std::max<int64_t>(1, rows_of_tile / group_)) {}

    void run(std::span<const Sequence> batch) {
        static std::vector<Task> tasks;
        tasks.clear();
        int64_t slots = 0;
        for (const Sequence& s : batch)
            for (int64_t h = 0; h < spec_.kv_heads; ++h)
                for (int64_t first = 0; first < s.rows; first += tile_tokens_) {
                    const int64_t tokens = std::min<int64_t>(tile_tokens_, s.rows - first);
                    const int64_t chunks = (s.past + first + tokens + key_chunk - 1) / key_chunk;
                    tasks.push_back({&s, h, first, tokens, chunks, slots});
                    slots += chunks;
                }
        const int64_t count = static_cast<int64_t>(tasks.size()), rows = tile_tokens_ * group_;
        Carver measure(nullptr);
        take_work<T>(measure, rows, layout_);
        work_bytes_ = measure.used();
        static Buffer work, states;
        work_ = work.array<char>(work_bytes_ * static_cast<size_t>(parallel::threads()));
        if (count >= int64_t{4} * parallel::threads() || slots == count) {
            parallel::for_each(count,
                               [&](int64_t i, int worker) { whole(tasks[static_cast<size_t>(i)], worker); });
            return;
        }
        // Few tiles, long contexts: chunks are computed apart, then merged in order.
        Carver measure_state(nullptr);
        take_state(measure_state, rows, layout_.padded);
        const size_t state_bytes = measure_state.used();
        char* memory = states.array<char>(state_bytes * static_cast<size_t>(slots));
        const auto state = [&](int64_t slot) {
            Carver c(memory + state_bytes * static_cast<size_t>(slot));
            return take_state(c, rows, layout_.padded);
        };
        parallel::for_each(slots, [&](int64_t slot, int worker) {
            const auto task = std::upper_bound(tasks.begin(), tasks.end(), slot,
                                               [](int64_t s, const Task& t) { return s < t.slot; }) -
                              1;
            part(*task, slot - task->slot, state(slot), worker);
        });
        parallel::for_each(count, [&](int64_t i, int) {
            const FlushToZero flush;
            const Task& task = tasks[static_cast<size_t>(i)];
            const AttentionTile t = tile(task);
            const AttentionState total = state(task.slot);
            for (int64_t c = 1; c < task.chunks; ++c)
                merge_(total, state(task.slot + c), t.rows(), layout_.padded);
            finish_(t, AttentionRules(kv_, spec_, task.kv_head), total, layout_.head_dim, layout_.padded);
        });
    }

  private:
    AttentionTile tile(const Task& task) const {
        AttentionTile t;
        const int64_t row = task.sequence->row + task.first_token, head = task.kv_head * group_;
        t.q = q_.as<T>() + row * q_.cols() + head * layout_.head_dim;
        t.out = out_.as<T>() + row * q_.cols() + head * layout_.head_dim;
        t.lse = lse_ ? lse_.as<float>() + row * spec_.heads + head : nullptr;
        t.q_stride = q_.cols();
        t.lse_stride = spec_.heads;
        t.tokens = task.tokens;
        t.group = group_;
        t.first_position = task.sequence->past + task.first_token;
        t.head = static_cast<const char*>(kv_.pages) + static_cast<size_t>(task.kv_head) * layout_.head_bytes;
        t.pages = task.sequence->pages;
        return t;
    }
    AttentionWork work(int worker) const {
        Carver c(work_ + work_bytes_ * static_cast<size_t>(worker));
        return take_work<T>(c, tile_tokens_ * group_, layout_);
    }
    void load(const Task& task, const AttentionTile& t, const AttentionRules& rules, const AttentionWork& w,
              bool observe) const {
        float amax = 0;
        load_(t, rules, static_cast<T*>(w.q), layout_.head_dim, &amax);
        if (spec_.q_amax && observe) raise_to(spec_.q_amax + task.kv_head, amax);
    }
    void part(const Task& task, int64_t chunk, AttentionState state, int worker) const {
        const FlushToZero flush;
        const AttentionTile t = tile(task);
        const AttentionRules rules(kv_, spec_, task.kv_head);
        const AttentionWork w = work(worker);
        load(task, t, rules, w, chunk == 0);
        attend_(t, layout_, rules, chunk, state, w);
    }
    void whole(const Task& task, int worker) const {
        const FlushToZero flush;
        const AttentionTile t = tile(task);
        const AttentionRules rules(kv_, spec_, task.kv_head);
        const AttentionWork w = work(worker);
        load(task, t, rules, w, true);
        attend_(t, layout_, rules, 0, w.total, w);
        for (int64_t c = 1; c < task.chunks; ++c) {
            attend_(t, layout_, rules, c, w.chunk, w);
            merge_(w.total, w.chunk, t.rows(), layout_.padded);
        }
        finish_(t, rules, w.total, layout_.head_dim, layout_.padded);
    }

    Tensor out_, lse_, q_;
    const KvLayer& kv_;
    const AttentionSpec& spec_;
    KvLayout layout_;
    int64_t group_, tile_tokens_;
    size_t work_bytes_ = 0;
    char* work_ = nullptr;
    decltype(&scalar::load_queries<T>) load_ = FP8RL_PICK(load_queries<T>);
    decltype(&scalar::attend_chunk<T>) attend_ = FP8RL_PICK(attend_chunk<T>);
    decltype(&scalar::merge_states) merge_ = FP8RL_PICK(merge_states);
    decltype(&scalar::finish_rows<T>) finish_ = FP8RL_PICK(finish_rows<T>);
};

}  // namespace

void attention(Tensor out, Tensor lse, Tensor q, const KvLayer& kv, std::span<const Sequence> batch,
               const AttentionSpec& spec) {
    check_attention("attention", q, kv, batch, spec);
    check(same_shape(out, q) && out.dtype == q.dtype && (!lse || lse.size() == q.rows() * spec.heads),
          "attention: out ", shape_text(out), ", lse ", shape_text(lse), ", q ", shape_text(q));
    with_act("attention", q.dtype,
             [&](auto zero) { Forward<decltype(zero)>(out, lse, q, kv, spec).run(batch); });
}

}  // namespace fp8rl::cpu
