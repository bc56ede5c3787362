// A ragged batch with a paged cache for the tests of attention, and its definition in double arithmetic.
#pragma once
#include <algorithm>
#include <numeric>

#include "cpu/attention.h"
#include "cpu/kv.h"
#include "ops_support.h"

namespace fp8rl::test {

struct AttentionCase {
    DType act, format;
    int heads, kv_heads, d;
    bool fp8 = false;
    std::vector<int32_t> past, rows;  // of each sequence
};

class Attention {
  public:
    Attention(const AttentionCase& c, uint64_t seed) : c_(c), t_(seed) {
        spec.heads = c.heads, spec.kv_heads = c.kv_heads, spec.head_dim = c.d, spec.fp8 = c.fp8;
        spec.scale = 1 / std::sqrt(static_cast<float>(c.d));
        k_scale = t_.zeros(DType::f32, {c.kv_heads}), v_scale = t_.zeros(DType::f32, {c.kv_heads});
        q_scale = t_.zeros(DType::f32, {c.kv_heads});
        for (int h = 0; h < c.kv_heads; ++h)
            k_scale.as<float>()[h] = 0.011f + 0.001f * static_cast<float>(h),
            v_scale.as<float>()[h] = 0.0123f, q_scale.as<float>()[h] = 0.0107f;
        spec.q_scale = q_scale.as<float>();
        int64_t all = 0, pages = 0;
        for (size_t s = 0; s < c.rows.size(); ++s) {
            all += c.past[s] + c.rows[s];
            pages += (c.past[s] + c.rows[s] + kv_page_tokens - 1) / kv_page_tokens;
        }
        q = t_.normal(c.act, {all, c.heads * c.d});
        k = t_.normal(c.act, {all, c.kv_heads * c.d});
        v = t_.normal(c.act, {all, c.kv_heads * c.d});
        // Pages in a shuffled order, and everything outside the keys is NaN.
        order_.resize(static_cast<size_t>(pages + 3));
        std::iota(order_.begin(), order_.end(), 0);
        for (size_t i = order_.size() - 1; i > 0; --i)
            std::swap(order_[i],
                      order_[static_cast<size_t>(t_.random().integer(0, static_cast<int64_t>(i)))]);
        pages_ = pages + 3;
        kv = new_cache();
        fill(kv);
    }
    KvLayer new_cache() {
        KvLayer l;
        l.format = c_.format, l.kv_heads = c_.kv_heads, l.head_dim = c_.d;
        const int64_t bytes = static_cast<int64_t>(cpu::kv_page_bytes(c_.format, c_.kv_heads, c_.d)) * pages_;
        const Tensor memory = t_.zeros(DType::u8, {bytes});
        std::memset(memory.data, 0x7f, static_cast<size_t>(bytes));
        if (c_.format == DType::bf16)
            for (int64_t i = 0; i < bytes / 2; ++i) static_cast<uint16_t*>(memory.data)[i] = 0x7fc1;
        if (c_.format == DType::f32)
            for (int64_t i = 0; i < bytes / 4; ++i) static_cast<uint32_t*>(memory.data)[i] = 0x7fc00001;
        l.pages = memory.data;
        l.k_scale = k_scale.as<float>(), l.v_scale = v_scale.as<float>();
        return l;
    }
    void fill(const KvLayer& l) { cpu::kv_append(l, k, v, whole()); }

    // Every token of every sequence; rows of q, k and v lie sequence after sequence.
    std::vector<Sequence> whole() const {
        std::vector<Sequence> b;
        int32_t row = 0;
        const int32_t* page = order_.data();
        for (size_t s = 0; s < c_.rows.size(); ++s) {
            const int32_t n = c_.past[s] + c_.rows[s];
            b.push_back({row, n, 0, page});
            row += n;
            page += (n + kv_page_tokens - 1) / kv_page_tokens;
        }
        return b;
    }
    // The last `rows` tokens of each sequence, the others being past.
    std::vector<Sequence> tails() const {
        std::vector<Sequence> b = whole();
        for (size_t s = 0; s < b.size(); ++s)
            b[s].row += c_.past[s], b[s].rows = c_.rows[s], b[s].past = c_.past[s];
        return b;
    }
    Bytes run(std::span<const Sequence> batch, const KvLayer& l) {
        const Tensor out = t_.zeros(c_.act, {q.rows(), q.cols()}),
                     lse = t_.zeros(DType::f32, {q.rows(), c_.heads});
        cpu::attention(out, lse, q, l, batch, spec);
        Bytes b;
        append(b, out);
        append(b, lse);
        last_out = out, last_lse = lse;
        return b;
    }

    // What the cache makes of k or v; row and column as in those tensors.
    double cached(const Tensor& x, const Tensor& scale, int64_t row, int64_t col) const {
        const double value = at(x, row * x.cols() + col);
        if (c_.format != DType::e4m3) return value;
        const float s = scale.as<float>()[col / c_.d];
        return static_cast<double>(decode<E4m3>(encode<E4m3>(static_cast<float>(value) / s))) * s;
    }
    double query(int64_t row, int64_t col) const {
        const double value = at(q, row * q.cols() + col);
        if (!c_.fp8) return value;
        const float s = q_scale.as<float>()[col / c_.d / (c_.heads / c_.kv_heads)];
        return static_cast<double>(decode<E4m3>(encode<E4m3>(static_cast<float>(value) / s))) * s;
    }
    // Softmax attention of one row and head: out [d], returns lse.
    double reference(const Sequence& s, int64_t row, int64_t head, std::vector<double>& out) const {
        const int64_t kvh = head / (c_.heads / c_.kv_heads), first = s.row - s.past, keys = row - first + 1;
        std::vector<double> score(static_cast<size_t>(keys));
        double largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; ++j) {
            double dot = 0;
            for (int64_t i = 0; i < c_.d; ++i)
                dot += query(row, head * c_.d + i) * cached(k, k_scale, first + j, kvh * c_.d + i);
            score[static_cast<size_t>(j)] = dot * spec.scale;
            largest = std::max(largest, score[static_cast<size_t>(j)]);
        }
        for (double& x : score) sum += x = std::exp(x - largest);
        out.assign(static_cast<size_t>(c_.d), 0);
        for (int64_t j = 0; j < keys; ++j)
            for (int64_t i = 0; i < c_.d; ++i)
                out[static_cast<size_t>(i)] +=
                    score[static_cast<size_t>(j)] / sum * cached(v, v_scale, first + j, kvh * c_.d + i);
        return largest + std::log(sum);
    }

    Tensor q, k, v, k_scale, v_scale, q_scale, last_out, last_lse;
    KvLayer kv;
    AttentionSpec spec;
    Tensors& tensors() { return t_; }
    std::vector<int32_t>& order() { return order_; }

  private:
    AttentionCase c_;
    Tensors t_;
    std::vector<int32_t> order_;
    int64_t pages_ = 0;
};

// A row of `out` and lse, as bytes.
inline Bytes row_of(const Tensor& out, const Tensor& lse, int64_t row) {
    Bytes b;
    append(b, out.row_range(row, 1));
    append(b, lse.row_range(row, 1));
    return b;
}

}  // namespace fp8rl::test
