// backend/shape: a device without maths. Every op checks shapes, types and alignment as the contract in
// backend.h states them and adds its FLOPs and bytes to a tally; memory is never read or written, so the very
// model that will run can be run on counting arenas first (the plan). Layout sizes are those of the backend
// that will do the work. A breach is a defect that names the op and the offending shape.
#pragma once
#include <array>

#include "backend/backend.h"

namespace fp8rl {

enum class OpKind : uint8_t {
    quantize,
    prepare,
    gemm,
    rows,  // gather, scatter, embedding
    norm,
    elementwise,
    rope,
    kv_cache,
    attention,
    attention_backward,
    head,
    head_backward,
    sample,
    optimizer,
    copy,
};
inline constexpr int op_kinds = static_cast<int>(OpKind::copy) + 1;
const char* name_of(OpKind kind);

struct Work {
    uint64_t calls = 0;
    double flops = 0;  // 2 per multiply-add
    double bytes = 0;  // operands read and written once
};

class ShapeBackend final : public Backend {
  public:
    // `layouts` sizes operands, weights, pages and the workspace; nothing else of it is used.
    explicit ShapeBackend(const Backend& layouts) : layouts_(layouts) {}

    const Work& work(OpKind kind) const { return work_[static_cast<size_t>(kind)]; }
    double flops() const;  // of all ops
    void clear() { work_ = {}; }

    std::string name() const override { return "shape"; }
    std::string device() const override { return "no device: shapes of " + layouts_.name(); }
    void* allocate(size_t bytes) override;  // an address that must not be touched
    void release(void*) override {}
    size_t memory_bytes() const override { return layouts_.memory_bytes(); }
    size_t workspace_bytes() const override { return layouts_.workspace_bytes(); }
    void zero(Tensor t) override;
    void copy(Tensor dst, Tensor src) override;
    void upload(Tensor dst, const void* host) override;
    void download(void* host, Tensor src) override;  // zeros
    void synchronize() override {}

    Weight reserve_weight(int64_t out, int64_t in, const WeightSpec& spec, Arena& arena) const override;
    void prepare(Weight& w, Tensor master) override;
    Operand quantize(Tensor x, const QuantSpec& spec, Side side, bool transpose, Arena& arena,
                     const QuantIo& io) override;
    Operand reserve_operand(Tensor x, const QuantSpec& spec, Side side, bool transpose,
                            Arena& arena) const override;
    void dequantize(float* out, const Operand& q) override;                     // zeros
    void read_codes(uint8_t* codes, float* scales, const Operand& q) override;  // a defect: there are none
    void gemm(Tensor c, const Operand& a, const Operand& b, bool accumulate) override;

    void gather_rows(Tensor out, Tensor in, std::span<const int32_t> rows) override;
    void scatter_rows(Tensor out, Tensor in, std::span<const int32_t> rows) override;
    void embed(Tensor y, const Weight& table, std::span<const int32_t> ids) override;
    void embed_backward(Tensor dtable, Tensor dy, std::span<const int32_t> ids) override;

    void add_rmsnorm(Tensor y, Tensor r_out, Tensor rstd, Tensor residual, Tensor delta, Tensor gain,
                     float eps) override;
    void rmsnorm_backward(Tensor dresidual, Tensor dgain, Tensor dy, Tensor x, Tensor rstd, Tensor gain,
                          bool overwrite) override;
    void add(Tensor y, Tensor x) override;
    void add_bias(Tensor y, Tensor bias) override;
    void bias_backward(Tensor dbias, Tensor dy) override;
    void swiglu(Tensor y, Tensor gate, Tensor up) override;
    void swiglu_backward(Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) override;
    void rope(Tensor x, std::span<const int32_t> positions, Tensor table, int head_dim,
              bool inverse) override;

    size_t kv_page_bytes(DType format, int kv_heads, int head_dim) const override;
    void kv_append(const KvLayer& kv, Tensor k, Tensor v, std::span<const Sequence> batch) override;
    void kv_copy_page(const KvLayer& kv, int32_t dst, int32_t src) override;
    void attention(Tensor out, Tensor lse, Tensor q, const KvLayer& kv, std::span<const Sequence> batch,
                   const AttentionSpec& spec) override;
    void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q,
                            const KvLayer& kv, std::span<const Sequence> batch,
                            const AttentionSpec& spec) override;

    void logits(Tensor out, Tensor h, const Weight& head) override;
    void token_logprob(Tensor logp, Tensor entropy, Tensor lse, Tensor h, const Weight& head,
                       std::span<const int32_t> targets, std::span<const float> cutoffs,
                       float temperature) override;
    void token_logprob_backward(Tensor dh, Tensor dhead, Tensor dlogp, Tensor dentropy, Tensor lse,
                                Tensor entropy, Tensor h, const Weight& head,
                                std::span<const int32_t> targets, std::span<const float> cutoffs,
                                float temperature) override;
    void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override;

    double sum_squares(Tensor x) override;  // 0
    void adamw(Tensor master, Tensor grad, Tensor m, Tensor v, const AdamwParams& p) override;

  private:
    void count(OpKind kind, double flops, double bytes);

    const Backend& layouts_;
    std::array<Work, op_kinds> work_{};
};

}  // namespace fp8rl
