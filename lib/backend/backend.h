// backend/backend: THE interface between the network and a device. One contract per op; lib/cpu is the
// meaning, cuda/ the speed, lib/backend/shape the counting (no maths: checks shapes, counts bytes and FLOPs).
// All ops: destination first; shapes come from the tensors; `act` below is the activation type, bf16 (f32
// under the recipe `fp32`, where every rounding is the identity). "round" means one rounding to the
// destination's type. Nothing allocates: operands come out of arenas, workspaces belong to the backend.
// Results do not depend on threads, on the batch a row stands in, or on the CPU's SIMD level. Shape or type
// errors are defects (exit code 3).
//
// Sums (DESIGN section 4). GEMM: per K-block (QuantSpec::k_block) products are fused-multiply-added in FP32
// in the order 1, 0, 3, 2, 5, 4, ... starting from +0; then total = fma(block, sA*sB, total), blocks in
// order; tensor-scaled and plain operands enter the blocks with factor 1 and a tensor scale multiplies the
// finished total once, total * (sA*sB). Flush-to-zero and denormals-are-zero hold inside GEMMs. Rows: 256
// partial sums, element i in sum i mod 256, then a halving tree. Whole tensors: per 4,096 elements by that
// rule, then FP64 in block order.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "backend/types.h"
#include "core/arena.h"

namespace fp8rl {

class Backend {
  public:
    virtual ~Backend() = default;
    virtual std::string name() const = 0;
    virtual std::string device() const = 0;  // for the log: CPU model and SIMD path, GPU name

    // ---- memory ----
    virtual void* allocate(
        size_t bytes) = 0;  // aligned to Arena::alignment, zero-filled; failure is Fault::device
    virtual void release(void* p) = 0;
    virtual size_t memory_bytes() const = 0;     // what the device has in all
    virtual size_t workspace_bytes() const = 0;  // what the ops use beside arenas, in all
    virtual void zero(Tensor t) = 0;
    virtual void copy(Tensor dst, Tensor src) = 0;  // same shape; bf16 <-> f32 converts (round)
    virtual void upload(Tensor dst, const void* host) = 0;
    virtual void download(void* host, Tensor src) = 0;
    virtual void synchronize() = 0;

    // ---- weights ----
    virtual Weight reserve_weight(int64_t out, int64_t in, const WeightSpec& spec, Arena& arena) const = 0;
    // Fills every layout from master f32 [O, C]. Codes are Q(bf16(master)); spec.format f32 keeps the
    // master's bits.
    virtual void prepare(Weight& w, Tensor master) = 0;

    // ---- quantize and GEMM ----
    // x act [R, K] as an operand: K along the row (rows = R, k = K), or transposed (rows = K, k = R, scales
    // along R, R padded to the scale block with zero codes). Plain bf16/f32 on side a without transpose is a
    // view of x.
    virtual Operand quantize(Tensor x, const QuantSpec& spec, Side side, bool transpose, Arena& arena,
                             const QuantIo& io = {}) = 0;
    // What quantize() would return, without the maths: same bytes out of the arena, which may be counting; x
    // may be a view of one. The plan measures with it (shape backend).
    virtual Operand reserve_operand(Tensor x, const QuantSpec& spec, Side side, bool transpose,
                                    Arena& arena) const = 0;
    // Codes times scales as f32 [rows, k]; codes alone (u8, FP8 only) and stored scales, for tests and
    // export. Host memory.
    virtual void dequantize(float* out, const Operand& q) = 0;
    virtual void read_codes(uint8_t* codes, float* scales, const Operand& q) = 0;
    // c act or f32 [m, n] = round(A B^T); accumulate: c f32 only, c += total.
    virtual void gemm(Tensor c, const Operand& a, const Operand& b, bool accumulate = false) = 0;

    // ---- rows ----
    // out [R, C] = in[rows[r]]; scatter: out[rows[r]] = in[r], every other row of out is zeroed; rows are
    // distinct.
    virtual void gather_rows(Tensor out, Tensor in, std::span<const int32_t> rows) = 0;
    virtual void scatter_rows(Tensor out, Tensor in, std::span<const int32_t> rows) = 0;

    // ---- embedding ----
    virtual void embed(Tensor y, const Weight& table, std::span<const int32_t> ids) = 0;  // y act [N, C]
    // dtable f32 [V, C] += dy rows, in row order for each id.
    virtual void embed_backward(Tensor dtable, Tensor dy, std::span<const int32_t> ids) = 0;

    // ---- norm ----
    // r = round(residual + delta) (delta empty: r = residual); rstd f32 [N] = 1/sqrt(mean(r^2) + eps);
    // y = round(r * rstd * gain), (r * rstd) first. gain f32 [C]. r_out may alias residual; may be empty when
    // delta is.
    virtual void add_rmsnorm(Tensor y, Tensor r_out, Tensor rstd, Tensor residual, Tensor delta, Tensor gain,
                             float eps) = 0;
    // dresidual act [N, C] = round(dresidual + dnorm(dy)); dy f32 or act [N, C]; dgain f32 [C] += (rows in
    // order, split in fixed groups that do not depend on threads). x, rstd as saved by the forward.
    // `overwrite`: dresidual is not read.
    virtual void rmsnorm_backward(Tensor dresidual, Tensor dgain, Tensor dy, Tensor x, Tensor rstd,
                                  Tensor gain, bool overwrite) = 0;

    // ---- elementwise ----
    virtual void add(Tensor y, Tensor x) = 0;                   // y = round(y + x), same shape
    virtual void add_bias(Tensor y, Tensor bias) = 0;           // y act [N, O] = round(y + bias f32 [O])
    virtual void bias_backward(Tensor dbias, Tensor dy) = 0;    // dbias f32 [O] += column sums, fixed order
    virtual void swiglu(Tensor y, Tensor gate, Tensor up) = 0;  // y = round(silu(gate) * up), act [N, F]
    virtual void swiglu_backward(Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) = 0;
    // In place on x act [N, H*D], pairs (i, i + D/2) (half-split form): table f32 [P, D] holds cos in [0,
    // D/2), sin in [D/2, D). One rounding. inverse: the transposed rotation, for gradients.
    virtual void rope(Tensor x, std::span<const int32_t> positions, Tensor table, int head_dim,
                      bool inverse) = 0;

    // ---- KV cache and attention ----
    virtual size_t kv_page_bytes(DType format, int kv_heads,
                                 int head_dim) const = 0;  // K and V, one layer, one page
    // Stores k, v act [N, K*D] (after norm and RoPE) at each row's position.
    virtual void kv_append(const KvLayer& kv, Tensor k, Tensor v, std::span<const Sequence> batch) = 0;
    virtual void kv_copy_page(const KvLayer& kv, int32_t dst, int32_t src) = 0;
    // out act [N, H*D], causal; lse f32 [N, H] (natural log of the softmax denominator at true scale) or
    // empty. Every row reads itself back through the cache. Keys in chunks of 512 from position 0; in a chunk
    // an online softmax over blocks of 64 keys; chunks merge in order. P rounds to bf16 before PV (E4M3 with
    // attention fp8), the denominator sums the unrounded P.
    virtual void attention(Tensor out, Tensor lse, Tensor q, const KvLayer& kv,
                           std::span<const Sequence> batch, const AttentionSpec& spec) = 0;
    // dq [N, H*D], dk and dv [N, K*D], act, overwritten. Sequences must have past = 0. K and V as read from
    // the cache; gradients pass straight through codes.
    virtual void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse,
                                    Tensor q, const KvLayer& kv, std::span<const Sequence> batch,
                                    const AttentionSpec& spec) = 0;

    // ---- head ----
    virtual void logits(Tensor out, Tensor h,
                        const Weight& head) = 0;  // out f32 [N, V] = h head^T, h act [N, C]
    // For each row the log-probability f32 [N] of its target under softmax(logits / temperature) over the
    // logits at or above its cutoff (cutoffs empty: all), entropy f32 [N] (or empty) and lse f32 [N].
    // Vocabulary in blocks of 1,024 combined in order; the same bits as sample() on logits(). Logits never
    // exist whole.
    virtual void token_logprob(Tensor logp, Tensor entropy, Tensor lse, Tensor h, const Weight& head,
                               std::span<const int32_t> targets, std::span<const float> cutoffs,
                               float temperature) = 0;
    // dh act [N, C] overwritten, dhead f32 [V, C] +=. dlogp f32 [N], dentropy f32 [N] or empty. Logits are
    // computed again.
    virtual void token_logprob_backward(Tensor dh, Tensor dhead, Tensor dlogp, Tensor dentropy, Tensor lse,
                                        Tensor entropy, Tensor h, const Weight& head,
                                        std::span<const int32_t> targets, std::span<const float> cutoffs,
                                        float temperature) = 0;
    // One draw a row of logits f32 [N, V]; results in host memory. NaN logits are a defect.
    virtual void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) = 0;

    // ---- optimizer ----
    virtual double sum_squares(Tensor x) = 0;  // f32; NaN or Inf when an element is
    // Decoupled weight decay (Loshchilov & Hutter 2019). master f32, grad f32, m and v f32 or bf16 (round).
    virtual void adamw(Tensor master, Tensor grad, Tensor m, Tensor v, const AdamwParams& p) = 0;
};

}  // namespace fp8rl
