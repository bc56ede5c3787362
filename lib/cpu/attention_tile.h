// cpu/attention_tile: what attention's kernels get: one tile is a run of tokens of one sequence with the
// query heads of one KV head; its rows are (token, head), token-major, so that later rows see at least as
// many keys.
#pragma once
#include "cpu/kv.h"

namespace fp8rl::cpu {

inline constexpr int64_t key_block = 64, key_chunk = 512;
inline constexpr int64_t block_pages = key_block / kv_page_tokens;

struct AttentionTile {
    const void* q = nullptr;  // act, the first row's; rows of a token are head_dim apart, tokens q_stride
    void* out = nullptr;      // likewise
    float* lse = nullptr;     // [token * lse_stride + head], or null
    int64_t q_stride = 0, lse_stride = 0;
    int64_t tokens = 0, group = 0;  // query heads of the KV head
    int64_t first_position = 0;     // of the first token
    const char* head = nullptr;     // page 0's part of this KV head
    const int32_t* pages = nullptr;
    int64_t rows() const { return tokens * group; }
    // Keys that row r sees.
    int64_t keys(int64_t r) const { return first_position + r / group + 1; }
};

struct AttentionRules {
    explicit AttentionRules(const KvLayer& kv, const AttentionSpec& spec, int64_t kv_head);
    float score_factor, out_factor;
    float q_scale = 1;  // fp8 only
    bool fp8 = false;
};

void check_attention(const char* op, const Tensor& q, const KvLayer& kv, std::span<const Sequence> batch,
                     const AttentionSpec& spec);

// Softmax state of a tile's rows: largest score, denominator, weighted sum of V.
struct AttentionState {
    float* m;    // [rows]
    float* l;    // [rows]
    float* acc;  // [rows, padded]
};

// One thread's working memory for a tile. T is the type of activations.
struct AttentionWork {
    AttentionState total, chunk;
    void* q;        // T [rows, D]
    float* scores;  // [rows, 64]
    void* p;        // T [rows, 64]
    void* k;        // T [64, D] and 64 more: a block of keys, expanded
    void* v;        // T [64, padded]
    void* v_row;    // the same
    float* factor;  // [rows] exp(m - n)
};

// Carves aligned pieces off a block of memory, or only measures them when there is none.
class Carver {
  public:
    explicit Carver(void* base) : base_(static_cast<char*>(base)) {}
    template <class T>
    T* take(int64_t n) {
        T* p = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
        used_ += (static_cast<size_t>(n) * sizeof(T) + 63) / 64 * 64;
        return p;
    }
    size_t used() const { return used_; }

  private:
    char* base_;
    size_t used_ = 0;
};

}  // namespace fp8rl::cpu
