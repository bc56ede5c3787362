// cpu/cpu_backend: the class behind make_cpu_backend. Each op is a free function of its family's header; this
// file only forwards.
#include "cpu/cpu_backend.h"

#include <cstring>
#include <fstream>

#include "core/parallel.h"
#include "core/text.h"
#include "cpu/adamw.h"
#include "cpu/attention.h"
#include "cpu/elementwise.h"
#include "cpu/embed.h"
#include "cpu/gemm.h"
#include "cpu/head.h"
#include "cpu/kv.h"
#include "cpu/memory.h"
#include "cpu/norm.h"
#include "cpu/quantize.h"
#include "cpu/rope.h"
#include "cpu/rows.h"
#include "cpu/weight.h"

namespace fp8rl {
namespace {

std::string cpu_model() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);) {
        const size_t colon = line.find(':');
        if (line.starts_with("model name") && colon != std::string::npos)
            return std::string(text::trim(std::string_view(line).substr(colon + 1)));
    }
    return "CPU";
}

class CpuBackend final : public Backend {
  public:
    std::string name() const override { return "cpu"; }
    std::string device() const override {
        return cat(cpu_model(), ", ", cpu::name_of(cpu::simd()), ", ", parallel::threads(), " threads");
    }

    void* allocate(size_t bytes) override { return cpu::allocate(bytes); }
    void release(void* p) override { cpu::release(p); }
    size_t memory_bytes() const override { return cpu::memory_bytes(); }
    size_t workspace_bytes() const override { return cpu::workspace_bytes(); }
    void zero(Tensor t) override { cpu::zero(t); }
    void copy(Tensor dst, Tensor src) override { cpu::copy(dst, src); }
    void upload(Tensor dst, const void* host) override {
        if (dst.bytes()) std::memcpy(dst.data, host, dst.bytes());
    }
    void download(void* host, Tensor src) override {
        if (src.bytes()) std::memcpy(host, src.data, src.bytes());
    }
    void synchronize() override {}

    Weight reserve_weight(int64_t out, int64_t in, const WeightSpec& spec, Arena& arena) const override {
        return cpu::reserve_weight(out, in, spec, arena);
    }
    void prepare(Weight& w, Tensor master) override { cpu::prepare(w, master); }

    Operand quantize(Tensor x, const QuantSpec& spec, Side side, bool transpose, Arena& arena,
                     const QuantIo& io) override {
        return cpu::quantize(x, spec, side, transpose, arena, io);
    }
    Operand reserve_operand(Tensor x, const QuantSpec& spec, Side side, bool transpose,
                            Arena& arena) const override {
        return cpu::reserve_operand(x, spec, side, transpose, arena);
    }
    void dequantize(float* out, const Operand& q) override { cpu::dequantize(out, q); }
    void read_codes(uint8_t* codes, float* scales, const Operand& q) override {
        cpu::read_codes(codes, scales, q);
    }
    void gemm(Tensor c, const Operand& a, const Operand& b, bool accumulate) override {
        cpu::gemm(c, a, b, accumulate);
    }

    void gather_rows(Tensor out, Tensor in, std::span<const int32_t> rows) override {
        cpu::gather_rows(out, in, rows);
    }
    void scatter_rows(Tensor out, Tensor in, std::span<const int32_t> rows) override {
        cpu::scatter_rows(out, in, rows);
    }

    void embed(Tensor y, const Weight& table, std::span<const int32_t> ids) override {
        cpu::embed(y, table, ids);
    }
    void embed_backward(Tensor dtable, Tensor dy, std::span<const int32_t> ids) override {
        cpu::embed_backward(dtable, dy, ids);
    }

    void add_rmsnorm(Tensor y, Tensor r_out, Tensor rstd, Tensor residual, Tensor delta, Tensor gain,
                     float eps) override {
        cpu::add_rmsnorm(y, r_out, rstd, residual, delta, gain, eps);
    }
    void rmsnorm_backward(Tensor dresidual, Tensor dgain, Tensor dy, Tensor x, Tensor rstd, Tensor gain,
                          bool overwrite) override {
        cpu::rmsnorm_backward(dresidual, dgain, dy, x, rstd, gain, overwrite);
    }

    void add(Tensor y, Tensor x) override { cpu::add(y, x); }
    void add_bias(Tensor y, Tensor bias) override { cpu::add_bias(y, bias); }
    void bias_backward(Tensor dbias, Tensor dy) override { cpu::bias_backward(dbias, dy); }
    void swiglu(Tensor y, Tensor gate, Tensor up) override { cpu::swiglu(y, gate, up); }
    void swiglu_backward(Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) override {
        cpu::swiglu_backward(dgate, dup, dy, gate, up);
    }
    void rope(Tensor x, std::span<const int32_t> positions, Tensor table, int head_dim,
              bool inverse) override {
        cpu::rope(x, positions, table, head_dim, inverse);
    }

    size_t kv_page_bytes(DType format, int kv_heads, int head_dim) const override {
        return cpu::kv_page_bytes(format, kv_heads, head_dim);
    }
    void kv_append(const KvLayer& kv, Tensor k, Tensor v, std::span<const Sequence> batch) override {
        cpu::kv_append(kv, k, v, batch);
    }
    void kv_copy_page(const KvLayer& kv, int32_t dst, int32_t src) override {
        cpu::kv_copy_page(kv, dst, src);
    }
    void attention(Tensor out, Tensor lse, Tensor q, const KvLayer& kv, std::span<const Sequence> batch,
                   const AttentionSpec& spec) override {
        cpu::attention(out, lse, q, kv, batch, spec);
    }
    void attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse, Tensor q,
                            const KvLayer& kv, std::span<const Sequence> batch,
                            const AttentionSpec& spec) override {
        cpu::attention_backward(dq, dk, dv, dout, out, lse, q, kv, batch, spec);
    }

    void logits(Tensor out, Tensor h, const Weight& head) override { cpu::logits(out, h, head); }
    void token_logprob(Tensor logp, Tensor entropy, Tensor lse, Tensor h, const Weight& head,
                       std::span<const int32_t> targets, std::span<const float> cutoffs,
                       float temperature) override {
        cpu::token_logprob(logp, entropy, lse, h, head, targets, cutoffs, temperature);
    }
    void token_logprob_backward(Tensor dh, Tensor dhead, Tensor dlogp, Tensor dentropy, Tensor lse,
                                Tensor entropy, Tensor h, const Weight& head,
                                std::span<const int32_t> targets, std::span<const float> cutoffs,
                                float temperature) override {
        cpu::token_logprob_backward(dh, dhead, dlogp, dentropy, lse, entropy, h, head, targets, cutoffs,
                                    temperature);
    }
    void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) override {
        cpu::sample(out, logits, params);
    }

    double sum_squares(Tensor x) override { return cpu::sum_squares(x); }
    void adamw(Tensor master, Tensor grad, Tensor m, Tensor v, const AdamwParams& p) override {
        cpu::adamw(master, grad, m, v, p);
    }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace fp8rl
