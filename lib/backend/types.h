// backend/types: what the ops of backend.h take. Plain data; device pointers are opaque outside the backend
// that made them. Arrays that the host fills (ids, positions, page tables, targets) are spans of host memory;
// everything else is a Tensor in the backend's memory.
#pragma once
#include <cstdint>
#include <span>

#include "core/tensor.h"
#include "quant/spec.h"

namespace fp8rl {

// ---- GEMM operands
// ------------------------------------------------------------------------------------------------- C[m, n] =
// sum_k A[m, k] B[n, k]: side a gives the rows of C, side b its columns. K runs along both operands.
enum class Side : uint8_t { a, b };

// A quantized (or plain) matrix in the layout that the backend's GEMM reads on that side. Codes and scales
// travel together.
struct Operand {
    void* data = nullptr;
    float* scales = nullptr;  // stored (dequantization) scales; layout is the backend's
    int64_t rows = 0;         // m or n
    int64_t k = 0;            // before padding
    QuantSpec spec;
    Side side = Side::a;
};

// Where a quantization reports to and, for scaling `delayed` and `fixed`, where its multiplier comes from.
// Backend memory.
struct QuantIo {
    const float* multiplier = nullptr;  // [1] x * multiplier is cast; required when spec.scaling != current
    float* amax = nullptr;              // [1] running maximum of |x| (NaN ignored), or null
    QuantCounts* counts = nullptr;      // added to, or null
};

// ---- Weights
// -------------------------------------------------------------------------------------------------------
// Which layouts of a weight [O, C] a prepared handle holds.
struct WeightSpec {
    QuantSpec forward;        // y = x W^T
    bool backward = false;    // also W^T for dx = dy W
    QuantSpec backward_spec;  // bf16 when recipe `backward: bf16`
    bool rows = false;        // also row-major bf16 (f32 in fp32): an embedding table
};

// Every layout of one weight; rebuilt by Backend::prepare after each update, shared by rollout and training.
struct Weight {
    int64_t out = 0, in = 0;
    WeightSpec spec;
    Operand forward;     // side b, rows = O, k = C
    Operand backward;    // side b, rows = C, k = O; 128x128 codes are transposed, not quantized again
    Tensor rows;         // [O, C]
    QuantCounts counts;  // of the last prepare, forward layout
};

// ---- Ragged batches and the paged KV cache
// --------------------------------------------------------------------------- Tokens of one page of the KV
// cache. K and V of a page lie together, per layer.
inline constexpr int kv_page_tokens = 16;

// Sequence s owns rows [row, row + rows) of the batch; their positions are past .. past + rows - 1, and its
// keys [0, past + rows) lie in pages[0], pages[1], ... (kv_page_tokens each).
struct Sequence {
    int32_t row = 0;
    int32_t rows = 0;
    int32_t past = 0;
    const int32_t* pages = nullptr;  // host memory
};

// One layer's cache. FP8: code = sat(x / scale) with one frozen scale per KV head; k_scale multiplies scores,
// v_scale outputs.
struct KvLayer {
    void* pages = nullptr;
    DType format = DType::bf16;  // f32 | bf16 | e4m3
    int kv_heads = 0, head_dim = 0;
    const float* k_scale = nullptr;  // [kv_heads] dequantization scales, required for e4m3
    const float* v_scale = nullptr;
    float* k_amax = nullptr;  // [kv_heads] running max |k|, or null
    float* v_amax = nullptr;
    QuantCounts* k_counts = nullptr;  // added to, or null
    QuantCounts* v_counts = nullptr;
};

struct AttentionSpec {
    int heads = 0, kv_heads = 0, head_dim = 0;
    float scale = 0;   // 1/sqrt(head_dim) times the RoPE attention factor squared where there is one
    bool fp8 = false;  // also Q and P in E4M3: needs an e4m3 cache
    const float* q_scale = nullptr;  // [kv_heads] dequantization scale of Q, required when fp8; P's is 1/256
    float* q_amax = nullptr;         // [kv_heads] running max |q|, or null
};

// ---- Head and sampling
// -----------------------------------------------------------------------------------------------
struct SampleParams {
    float temperature = 1;  // 0: greedy; the log-prob is then that of temperature 1
    float top_p = 1;    // keep the smallest set of tokens whose mass reaches top_p; ties at the cut are kept
    int32_t top_k = 0;  // 0: all
    float uniform = 0;  // [0, 1): the draw
};

struct Sampled {
    int32_t id = 0;
    float logp = 0;     // under the distribution sampled from: temperature, top-p and top-k applied
    float cutoff = 0;   // least logit kept; -inf without top-p and top-k
    float entropy = 0;  // nats, of the same distribution
};

struct AdamwParams {
    float lr = 0, beta1 = 0.9f, beta2 = 0.95f, eps = 1e-8f, weight_decay = 0;
    float correction1 = 1, correction2 = 1;  // 1 - beta^t
    float grad_scale = 1;                    // clipping factor, applied to the gradient first
};

}  // namespace fp8rl
