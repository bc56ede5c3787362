// backend/shape: the checks of every op, and what it costs. FLOPs of elementwise ops are rough (they are a
// percent of a step); those of GEMMs, attention and the head are exact.
#include "backend/shape.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace fp8rl {

const char* name_of(OpKind kind) {
    static const char* const names[op_kinds] = {
        "quantize",    "prepare",       "gemm",     "rows",      "norm",
        "elementwise", "rope",          "kv_cache", "attention", "attention_backward",
        "head",        "head_backward", "sample",   "optimizer", "copy"};
    return names[static_cast<size_t>(kind)];
}

static double dbl(int64_t n) { return static_cast<double>(n); }

// ---- checks

static void need(bool ok, const char* op, const char* what, const Tensor& t) {
    check(ok, "shape: ", op, ": ", what, " is ", shape_text(t));
}

static void tensor(const char* op, const char* what, const Tensor& t, int64_t rows, int64_t cols) {
    need(t.data != nullptr, op, what, t);
    need(t.rows() == rows && t.cols() == cols, op, what, t);
    need(reinterpret_cast<uintptr_t>(t.data) % size_of(t.dtype) == 0, op, what, t);
}

static void activation(const char* op, const char* what, const Tensor& t, int64_t rows, int64_t cols) {
    tensor(op, what, t, rows, cols);
    need(t.dtype == DType::bf16 || t.dtype == DType::f32, op, what, t);
}

static void floats(const char* op, const char* what, const Tensor& t, int64_t size) {
    need(t.data != nullptr && t.dtype == DType::f32 && t.size() == size, op, what, t);
    need(reinterpret_cast<uintptr_t>(t.data) % sizeof(float) == 0, op, what, t);
}

static void indices(const char* op, std::span<const int32_t> ids, int64_t rows, int64_t limit) {
    check(static_cast<int64_t>(ids.size()) == rows, "shape: ", op, ": ", ids.size(), " indices for ", rows,
          " rows");
    for (int32_t i : ids) check(i >= 0 && i < limit, "shape: ", op, ": index ", i, " of ", limit);
}

// Rows of the batch, and query-key pairs that causal attention computes.
struct Extent {
    int64_t rows = 0, pairs = 0, keys = 0;
};
static Extent extent(const char* op, std::span<const Sequence> batch) {
    Extent e;
    for (const Sequence& s : batch) {
        check(s.row == e.rows && s.rows > 0 && s.past >= 0 && s.pages, "shape: ", op,
              ": sequences must follow one another, each with rows and pages");
        e.rows += s.rows;
        e.keys += s.past + s.rows;
        e.pairs += int64_t{s.rows} * s.past + int64_t{s.rows} * (s.rows + 1) / 2;
    }
    return e;
}

static void cache(const char* op, const KvLayer& kv) {
    check(kv.pages && kv.kv_heads > 0 && kv.head_dim > 0, "shape: ", op, ": empty KV layer");
    check(kv.format == DType::f32 || kv.format == DType::bf16 || kv.format == DType::e4m3, "shape: ", op,
          ": KV format ", name_of(kv.format));
    check(kv.format != DType::e4m3 || (kv.k_scale && kv.v_scale), "shape: ", op,
          ": an e4m3 cache needs scales");
}

static void attention_spec(const char* op, const AttentionSpec& spec, const KvLayer& kv) {
    check(spec.kv_heads == kv.kv_heads && spec.head_dim == kv.head_dim && spec.heads % spec.kv_heads == 0 &&
              spec.scale > 0,
          "shape: ", op, ": ", spec.heads, " heads of ", spec.head_dim, " over ", kv.kv_heads, " of ",
          kv.head_dim);
    check(!spec.fp8 || (kv.format == DType::e4m3 && spec.q_scale), "shape: ", op,
          ": FP8 attention needs an e4m3 cache and Q's scale");
}

static size_t bytes_of(const Operand& o) {
    return static_cast<size_t>(o.rows) * static_cast<size_t>(o.k) * size_of(o.spec.format);
}

// ---- memory

void ShapeBackend::count(OpKind kind, double flops, double bytes) {
    Work& w = work_[static_cast<size_t>(kind)];
    ++w.calls;
    w.flops += flops;
    w.bytes += bytes;
}

double ShapeBackend::flops() const {
    return std::accumulate(work_.begin(), work_.end(), 0.0,
                           [](double sum, const Work& w) { return sum + w.flops; });
}

void* ShapeBackend::allocate(size_t) { return reinterpret_cast<void*>(uintptr_t{1} << 40); }

void ShapeBackend::zero(Tensor t) {
    need(t.data != nullptr, "zero", "destination", t);
    count(OpKind::copy, 0, static_cast<double>(t.bytes()));
}

void ShapeBackend::copy(Tensor dst, Tensor src) {
    tensor("copy", "source", src, dst.rows(), dst.cols());
    count(OpKind::copy, 0, static_cast<double>(dst.bytes() + src.bytes()));
}

void ShapeBackend::upload(Tensor dst, const void* host) {
    need(dst.data && host, "upload", "destination", dst);
    count(OpKind::copy, 0, static_cast<double>(dst.bytes()));
}

void ShapeBackend::download(void* host, Tensor src) {
    need(src.data && host, "download", "source", src);
    if (src.bytes()) std::memset(host, 0, src.bytes());
    count(OpKind::copy, 0, static_cast<double>(src.bytes()));
}

// ---- weights, quantize, GEMM

Weight ShapeBackend::reserve_weight(int64_t out, int64_t in, const WeightSpec& spec, Arena& arena) const {
    return layouts_.reserve_weight(out, in, spec, arena);
}

void ShapeBackend::prepare(Weight& w, Tensor master) {
    tensor("prepare", "master", master, w.out, w.in);
    need(master.dtype == DType::f32, "prepare", "master", master);
    const double written = static_cast<double>(bytes_of(w.forward)) +
                           (w.spec.backward ? static_cast<double>(bytes_of(w.backward)) : 0) +
                           (w.rows ? static_cast<double>(w.rows.bytes()) : 0);
    count(OpKind::prepare, 0, static_cast<double>(master.bytes()) + written);
}

Operand ShapeBackend::reserve_operand(Tensor x, const QuantSpec& spec, Side side, bool transpose,
                                      Arena& arena) const {
    return layouts_.reserve_operand(x, spec, side, transpose, arena);
}

Operand ShapeBackend::quantize(Tensor x, const QuantSpec& spec, Side side, bool transpose, Arena& arena,
                               const QuantIo& io) {
    activation("quantize", "source", x, x.rows(), x.cols());
    check(!spec.quantized() || (spec.scaling == Scaling::current) == (io.multiplier == nullptr),
          "shape: quantize: a multiplier belongs to delayed and fixed scaling, and only to them");
    const Operand o = layouts_.reserve_operand(x, spec, side, transpose, arena);
    check(o.rows == (transpose ? x.cols() : x.rows()) && o.k == (transpose ? x.rows() : x.cols()),
          "shape: quantize: the layout has ", o.rows, " x ", o.k, " of ", shape_text(x));
    if (o.data != x.data)
        count(OpKind::quantize, 2 * dbl(x.size()), static_cast<double>(x.bytes() + bytes_of(o)));
    return o;
}

void ShapeBackend::dequantize(float* out, const Operand& q) { std::fill(out, out + q.rows * q.k, 0.0f); }

void ShapeBackend::read_codes(uint8_t*, float*, const Operand&) {
    defect("shape: read_codes: there are no codes");
}

void ShapeBackend::gemm(Tensor c, const Operand& a, const Operand& b, bool accumulate) {
    check(a.side == Side::a && b.side == Side::b && a.data && b.data,
          "shape: gemm: operands of sides a and b");
    check(a.k == b.k, "shape: gemm: K is ", a.k, " in A and ", b.k, " in B");
    check(a.spec.quantized() == b.spec.quantized(), "shape: gemm: ", describe(a.spec), " with ",
          describe(b.spec));
    activation("gemm", "destination", c, a.rows, b.rows);
    need(!accumulate || c.dtype == DType::f32, "gemm", "accumulating destination", c);
    count(OpKind::gemm, 2 * dbl(a.rows) * dbl(b.rows) * dbl(a.k),
          static_cast<double>(bytes_of(a) + bytes_of(b) + c.bytes() * (accumulate ? 2 : 1)));
}

// ---- rows

void ShapeBackend::gather_rows(Tensor out, Tensor in, std::span<const int32_t> rows) {
    tensor("gather_rows", "destination", out, static_cast<int64_t>(rows.size()), in.cols());
    indices("gather_rows", rows, out.rows(), in.rows());
    count(OpKind::rows, 0, 2 * static_cast<double>(out.bytes()));
}

void ShapeBackend::scatter_rows(Tensor out, Tensor in, std::span<const int32_t> rows) {
    tensor("scatter_rows", "source", in, static_cast<int64_t>(rows.size()), out.cols());
    indices("scatter_rows", rows, in.rows(), out.rows());
    count(OpKind::rows, 0, static_cast<double>(in.bytes() + out.bytes()));
}

void ShapeBackend::embed(Tensor y, const Weight& table, std::span<const int32_t> ids) {
    check(static_cast<bool>(table.rows), "shape: embed: the table has no rows");
    activation("embed", "destination", y, static_cast<int64_t>(ids.size()), table.in);
    indices("embed", ids, y.rows(), table.out);
    count(OpKind::rows, 0, 2 * static_cast<double>(y.bytes()));
}

void ShapeBackend::embed_backward(Tensor dtable, Tensor dy, std::span<const int32_t> ids) {
    floats("embed_backward", "dtable", dtable, dtable.rows() * dy.cols());
    activation("embed_backward", "dy", dy, static_cast<int64_t>(ids.size()), dtable.cols());
    indices("embed_backward", ids, dy.rows(), dtable.rows());
    count(OpKind::rows, dbl(dy.size()), 3 * static_cast<double>(dy.bytes()));
}

// ---- norm and elementwise

void ShapeBackend::add_rmsnorm(Tensor y, Tensor r_out, Tensor rstd, Tensor residual, Tensor delta,
                               Tensor gain, float eps) {
    const int64_t n = y.rows(), c = y.cols();
    activation("add_rmsnorm", "y", y, n, c);
    activation("add_rmsnorm", "residual", residual, n, c);
    if (delta) activation("add_rmsnorm", "delta", delta, n, c);
    if (r_out || delta) activation("add_rmsnorm", "r_out", r_out, n, c);
    floats("add_rmsnorm", "rstd", rstd, n);
    floats("add_rmsnorm", "gain", gain, c);
    check(eps > 0, "shape: add_rmsnorm: eps ", eps);
    count(OpKind::norm, 5 * dbl(y.size()), (2.0 + (delta ? 2 : 0)) * static_cast<double>(y.bytes()));
}

void ShapeBackend::rmsnorm_backward(Tensor dresidual, Tensor dgain, Tensor dy, Tensor x, Tensor rstd,
                                    Tensor gain, bool overwrite) {
    const int64_t n = dresidual.rows(), c = dresidual.cols();
    activation("rmsnorm_backward", "dresidual", dresidual, n, c);
    activation("rmsnorm_backward", "dy", dy, n, c);
    activation("rmsnorm_backward", "x", x, n, c);
    floats("rmsnorm_backward", "rstd", rstd, n);
    floats("rmsnorm_backward", "gain", gain, c);
    floats("rmsnorm_backward", "dgain", dgain, c);
    count(OpKind::norm, 10 * dbl(x.size()),
          static_cast<double>(dy.bytes() + x.bytes() + dresidual.bytes() * (overwrite ? 1 : 2)));
}

void ShapeBackend::add(Tensor y, Tensor x) {
    activation("add", "x", x, y.rows(), y.cols());
    activation("add", "y", y, y.rows(), y.cols());
    count(OpKind::elementwise, dbl(y.size()), static_cast<double>(2 * y.bytes() + x.bytes()));
}

void ShapeBackend::add_bias(Tensor y, Tensor bias) {
    activation("add_bias", "y", y, y.rows(), y.cols());
    floats("add_bias", "bias", bias, y.cols());
    count(OpKind::elementwise, dbl(y.size()), 2 * static_cast<double>(y.bytes()));
}

void ShapeBackend::bias_backward(Tensor dbias, Tensor dy) {
    activation("bias_backward", "dy", dy, dy.rows(), dy.cols());
    floats("bias_backward", "dbias", dbias, dy.cols());
    count(OpKind::elementwise, dbl(dy.size()), static_cast<double>(dy.bytes()));
}

void ShapeBackend::swiglu(Tensor y, Tensor gate, Tensor up) {
    for (const auto& [what, t] : {std::pair("y", y), {"gate", gate}, {"up", up}})
        activation("swiglu", what, t, y.rows(), y.cols());
    count(OpKind::elementwise, 6 * dbl(y.size()), 3 * static_cast<double>(y.bytes()));
}

void ShapeBackend::swiglu_backward(Tensor dgate, Tensor dup, Tensor dy, Tensor gate, Tensor up) {
    for (const auto& [what, t] :
         {std::pair("dgate", dgate), {"dup", dup}, {"dy", dy}, {"gate", gate}, {"up", up}})
        activation("swiglu_backward", what, t, dy.rows(), dy.cols());
    count(OpKind::elementwise, 12 * dbl(dy.size()), 5 * static_cast<double>(dy.bytes()));
}

void ShapeBackend::rope(Tensor x, std::span<const int32_t> positions, Tensor table, int head_dim, bool) {
    activation("rope", "x", x, static_cast<int64_t>(positions.size()), x.cols());
    need(head_dim > 0 && head_dim % 2 == 0 && x.cols() % head_dim == 0, "rope", "x", x);
    floats("rope", "table", table, table.rows() * head_dim);
    indices("rope", positions, x.rows(), table.rows());
    count(OpKind::rope, 3 * dbl(x.size()), 2 * static_cast<double>(x.bytes()));
}

// ---- KV cache and attention

size_t ShapeBackend::kv_page_bytes(DType format, int kv_heads, int head_dim) const {
    return layouts_.kv_page_bytes(format, kv_heads, head_dim);
}

void ShapeBackend::kv_append(const KvLayer& kv, Tensor k, Tensor v, std::span<const Sequence> batch) {
    cache("kv_append", kv);
    const int64_t n = extent("kv_append", batch).rows;
    activation("kv_append", "k", k, n, int64_t{kv.kv_heads} * kv.head_dim);
    activation("kv_append", "v", v, n, int64_t{kv.kv_heads} * kv.head_dim);
    count(OpKind::kv_cache, dbl(k.size() + v.size()),
          static_cast<double>(k.bytes() + v.bytes()) + dbl(k.size() + v.size()) * dbl(size_of(kv.format)));
}

void ShapeBackend::kv_copy_page(const KvLayer& kv, int32_t dst, int32_t src) {
    cache("kv_copy_page", kv);
    check(dst >= 0 && src >= 0, "shape: kv_copy_page: page ", src, " to ", dst);
    count(OpKind::kv_cache, 0,
          2 * static_cast<double>(layouts_.kv_page_bytes(kv.format, kv.kv_heads, kv.head_dim)));
}

void ShapeBackend::attention(Tensor out, Tensor lse, Tensor q, const KvLayer& kv,
                             std::span<const Sequence> batch, const AttentionSpec& spec) {
    cache("attention", kv);
    attention_spec("attention", spec, kv);
    const Extent e = extent("attention", batch);
    const int64_t width = int64_t{spec.heads} * spec.head_dim;
    activation("attention", "out", out, e.rows, width);
    activation("attention", "q", q, e.rows, width);
    if (lse) floats("attention", "lse", lse, e.rows * spec.heads);
    const double kv_bytes = 2 * dbl(e.keys) * kv.kv_heads * kv.head_dim * dbl(size_of(kv.format));
    count(OpKind::attention, 4 * dbl(e.pairs) * dbl(width),
          static_cast<double>(q.bytes() + out.bytes()) + kv_bytes);
}

void ShapeBackend::attention_backward(Tensor dq, Tensor dk, Tensor dv, Tensor dout, Tensor out, Tensor lse,
                                      Tensor q, const KvLayer& kv, std::span<const Sequence> batch,
                                      const AttentionSpec& spec) {
    const char* op = "attention_backward";
    cache(op, kv);
    attention_spec(op, spec, kv);
    const Extent e = extent(op, batch);
    for (const Sequence& s : batch) check(s.past == 0, "shape: ", op, ": a sequence with a past");
    const int64_t width = int64_t{spec.heads} * spec.head_dim;
    const int64_t kv_width = int64_t{spec.kv_heads} * spec.head_dim;
    for (const auto& [what, t] : {std::pair("dq", dq), {"dout", dout}, {"out", out}, {"q", q}})
        activation(op, what, t, e.rows, width);
    activation(op, "dk", dk, e.rows, kv_width);
    activation(op, "dv", dv, e.rows, kv_width);
    floats(op, "lse", lse, e.rows * spec.heads);
    // Scores again, dP, dV, dQ, dK.
    count(OpKind::attention_backward, 10 * dbl(e.pairs) * dbl(width),
          static_cast<double>(dq.bytes() + dout.bytes() + out.bytes() + q.bytes() + 2 * dk.bytes() +
                              2 * dv.bytes()));
}

// ---- head and sampling

void ShapeBackend::logits(Tensor out, Tensor h, const Weight& head) {
    activation("logits", "h", h, out.rows(), head.in);
    floats("logits", "out", out, h.rows() * head.out);
    count(OpKind::head, 2 * dbl(out.size()) * dbl(head.in),
          static_cast<double>(out.bytes() + h.bytes() + bytes_of(head.forward)));
}

void ShapeBackend::token_logprob(Tensor logp, Tensor entropy, Tensor lse, Tensor h, const Weight& head,
                                 std::span<const int32_t> targets, std::span<const float> cutoffs,
                                 float temperature) {
    const int64_t n = h.rows();
    activation("token_logprob", "h", h, n, head.in);
    floats("token_logprob", "logp", logp, n);
    floats("token_logprob", "lse", lse, n);
    if (entropy) floats("token_logprob", "entropy", entropy, n);
    indices("token_logprob", targets, n, head.out);
    check(cutoffs.empty() || static_cast<int64_t>(cutoffs.size()) == n,
          "shape: token_logprob: ", cutoffs.size(), " cutoffs for ", n, " rows");
    check(temperature > 0, "shape: token_logprob: temperature ", temperature);
    count(OpKind::head, 2 * dbl(n) * dbl(head.in) * dbl(head.out),
          static_cast<double>(h.bytes() + bytes_of(head.forward)));
}

void ShapeBackend::token_logprob_backward(Tensor dh, Tensor dhead, Tensor dlogp, Tensor dentropy, Tensor lse,
                                          Tensor entropy, Tensor h, const Weight& head,
                                          std::span<const int32_t> targets, std::span<const float> cutoffs,
                                          float temperature) {
    const char* op = "token_logprob_backward";
    const int64_t n = h.rows();
    activation(op, "h", h, n, head.in);
    activation(op, "dh", dh, n, head.in);
    floats(op, "dhead", dhead, head.out * head.in);
    floats(op, "dlogp", dlogp, n);
    floats(op, "lse", lse, n);
    if (dentropy) {
        floats(op, "dentropy", dentropy, n);
        floats(op, "entropy", entropy, n);
    }
    indices(op, targets, n, head.out);
    check(cutoffs.empty() || static_cast<int64_t>(cutoffs.size()) == n, "shape: ", op, ": ", cutoffs.size(),
          " cutoffs for ", n, " rows");
    check(temperature > 0 && head.spec.backward, "shape: ", op,
          ": needs a temperature and a head for training");
    // Logits again, dh, dhead.
    count(OpKind::head_backward, 6 * dbl(n) * dbl(head.in) * dbl(head.out),
          static_cast<double>(2 * h.bytes() + 2 * bytes_of(head.forward) + 2 * dhead.bytes()));
}

void ShapeBackend::sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) {
    floats("sample", "logits", logits, static_cast<int64_t>(out.size()) * logits.cols());
    check(out.size() == params.size(), "shape: sample: ", params.size(), " parameters for ", out.size(),
          " rows");
    std::fill(out.begin(), out.end(), Sampled{});
    count(OpKind::sample, 3 * dbl(logits.size()), static_cast<double>(logits.bytes()));
}

// ---- optimizer

double ShapeBackend::sum_squares(Tensor x) {
    floats("sum_squares", "x", x, x.size());
    count(OpKind::optimizer, 2 * dbl(x.size()), static_cast<double>(x.bytes()));
    return 0;
}

void ShapeBackend::adamw(Tensor master, Tensor grad, Tensor m, Tensor v, const AdamwParams&) {
    floats("adamw", "master", master, master.size());
    floats("adamw", "grad", grad, master.size());
    activation("adamw", "m", m, master.rows(), master.cols());
    activation("adamw", "v", v, master.rows(), master.cols());
    count(OpKind::optimizer, 15 * dbl(master.size()),
          static_cast<double>(2 * master.bytes() + grad.bytes() + 2 * m.bytes() + 2 * v.bytes()));
}

}  // namespace fp8rl
