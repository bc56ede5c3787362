// nn/load: GGUF names and row order, and the one path by which masters are filled.
#include "nn/load.h"

#include <algorithm>
#include <map>

#include "core/parallel.h"
#include "core/text.h"
#include "io/gguf.h"
#include "nn/model.h"
#include "quant/formats.h"

namespace fp8rl {

namespace {

class GgufSource final : public WeightSource {
  public:
    GgufSource(const GgufFile& file, const ModelSpec& spec) : file_(file), spec_(spec) {
        for (const GgufTensor& t : file.tensors()) entries_.emplace(published(t.name), &t);
    }
    std::string where() const override { return file_.path(); }
    std::vector<std::string> names() const override {
        std::vector<std::string> out;
        for (const auto& [name, tensor] : entries_) out.push_back(name);
        return out;
    }
    std::vector<int64_t> shape(const std::string& name) const override { return tensor(name).shape; }
    void read_rows(const std::string& name, int64_t first, int64_t count, float* out) const override {
        const GgufTensor& t = tensor(name);
        const bool permuted = name.find(".self_attn.q_proj.") != std::string::npos ||
                              name.find(".self_attn.k_proj.") != std::string::npos;
        if (!permuted) return file_.dequantize_rows(t, first, count, out);
        // Row (pair i, half j) of a head stands at 2i + j in the file, at j*D/2 + i in half-split order.
        const int64_t d = spec_.head_dim;
        auto in_file = [&](int64_t row) {
            const int64_t in_head = row % d;
            return row - in_head + 2 * (in_head % (d / 2)) + in_head / (d / 2);
        };
        if (t.shape.size() == 1) {  // a bias: its elements are the rows
            std::vector<float> values(static_cast<size_t>(t.size()));
            file_.dequantize_rows(t, 0, 1, values.data());
            for (int64_t i = 0; i < t.size(); ++i) out[i] = values[static_cast<size_t>(in_file(i))];
            return;
        }
        for (int64_t r = 0; r < count; ++r)
            file_.dequantize_rows(t, in_file(first + r), 1, out + r * t.cols());
    }

  private:
    // An unknown name stays as it is, so that it is refused under the name the file uses.
    static std::string published(const std::string& name) {
        static const std::map<std::string, std::string> outside = {
            {"token_embd.weight", "model.embed_tokens.weight"},
            {"output_norm.weight", "model.norm.weight"},
            {"output.weight", "lm_head.weight"}};
        static const std::map<std::string, std::string> inside = {
            {"attn_norm", "input_layernorm"}, {"ffn_norm", "post_attention_layernorm"},
            {"attn_q", "self_attn.q_proj"},   {"attn_k", "self_attn.k_proj"},
            {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"},
            {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},
            {"ffn_down", "mlp.down_proj"}};
        if (auto it = outside.find(name); it != outside.end()) return it->second;
        const auto parts = text::split(name, '.');
        if (parts.size() != 4 || parts[0] != "blk") return name;
        const auto it = inside.find(parts[2]);
        if (it == inside.end()) return name;
        return "model.layers." + parts[1] + "." + it->second + "." + parts[3];
    }
    const GgufTensor& tensor(const std::string& name) const { return *entries_.at(name); }

    const GgufFile& file_;
    ModelSpec spec_;
    std::map<std::string, const GgufTensor*> entries_;
};

}  // namespace

std::unique_ptr<WeightSource> gguf_source(const GgufFile& file, const ModelSpec& spec) {
    return std::make_unique<GgufSource>(file, spec);
}

static std::string dims(const std::vector<int64_t>& shape) {
    std::string s = "[";
    for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
    return s + "]";
}

// Every parameter has its tensor of the right shape, and every tensor its parameter.
static void check_tensors(const ParamSet& params, const WeightSource& source) {
    std::vector<std::string> names = source.names();
    std::sort(names.begin(), names.end());
    size_t used = 0;
    params.visit([&](const Param& p) {
        if (!std::binary_search(names.begin(), names.end(), p.name))
            refuse(source.where(), ": tensor ", p.name, " is missing");
        const std::vector<int64_t> shape = source.shape(p.name);
        const auto expected = p.kind == Param::Kind::vector ? std::vector<int64_t>{p.cols}
                                                            : std::vector<int64_t>{p.rows, p.cols};
        if (shape != expected)
            refuse(source.where(), ": tensor ", p.name, " is ", dims(shape), "; this model needs ",
                   dims(expected));
        ++used;
    });
    if (used == names.size()) return;
    for (const auto& name : names) {
        bool known = false;
        params.visit([&](const Param& p) { known |= p.name == name; });
        if (!known) refuse(source.where(), ": tensor ", name, " is not known to this model");
    }
}

void Model::load(const WeightSource& source) {
    check_tensors(params(), source);
    struct Piece {
        const Param* param;
        int64_t first, count;
    };
    std::vector<Piece> pieces;
    int64_t largest = 0;
    params().visit([&](const Param& p) {
        const int64_t rows = std::max<int64_t>(1, 65536 / p.cols);
        for (int64_t r = 0; r < p.rows; r += rows) {
            pieces.push_back({&p, r, std::min(rows, p.rows - r)});
            largest = std::max(largest, pieces.back().count * p.cols);
        }
    });
    std::vector<std::vector<float>> staging(static_cast<size_t>(parallel::threads()));
    parallel::for_each(static_cast<int64_t>(pieces.size()), [&](int64_t i, int worker) {
        const Piece& piece = pieces[static_cast<size_t>(i)];
        auto& buffer = staging[static_cast<size_t>(worker)];
        buffer.resize(static_cast<size_t>(largest));
        source.read_rows(piece.param->name, piece.first, piece.count, buffer.data());
        const int64_t n = piece.count * piece.param->cols;
        bool finite = true;
        for (int64_t k = 0; k < n; ++k) finite &= is_finite(buffer[static_cast<size_t>(k)]);
        if (!finite)
            refuse(source.where(), ": tensor ", piece.param->name, " holds a value that is not finite");
        backend().upload(piece.param->master.row_range(piece.first, piece.count), buffer.data());
    });
}

void Model::load(const GgufFile& file) { load(*gguf_source(file, spec())); }

}  // namespace fp8rl
