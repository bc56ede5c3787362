// nn/model: embedding, blocks, final norm; and backwards. State beside the parameters is in model_state.cpp.
#include "nn/model.h"

#include <deque>

#include "nn/elementary.h"
#include "nn/model_impl.h"

namespace fp8rl {

static Param& add_table(Network& net, const std::string& name, bool rows, bool head) {
    Param p;
    p.name = name;
    p.kind = Param::Kind::embedding;
    p.rows = net.spec.vocab;
    p.cols = net.spec.hidden;
    p.weight.spec.forward = net.plain();
    p.weight.spec.backward = net.options.train && head;
    p.weight.spec.backward_spec = net.plain();
    p.weight.spec.rows = rows;
    return net.params.add(std::move(p));
}

Model::Impl::Impl(Backend& backend, const ModelSpec& spec, const ModelOptions& options)
    : net(backend, spec, options),
      embedding(add_table(net, "model.embed_tokens.weight", true, spec.tied)),
      blocks(make_blocks(net)),
      final_norm(net, "model.norm", spec.hidden, -1),
      head(spec.tied ? embedding : add_table(net, "lm_head.weight", false, true)) {}

std::deque<Block> Model::Impl::make_blocks(Network& net) {
    std::deque<Block> blocks;
    for (int l = 0; l < static_cast<int>(net.spec.layers); ++l) blocks.emplace_back(net, l);
    return blocks;
}

Model::Model(Backend& backend, const ModelSpec& spec, const ModelOptions& options) {
    spec.validate();
    impl_ = std::make_unique<Impl>(backend, spec, options);
}

Model::~Model() = default;

std::vector<Model::LinearName> Model::linear_modules(const ModelSpec& spec) {
    std::vector<LinearName> out;
    for (int l = 0; l < static_cast<int>(spec.layers); ++l)
        for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                 "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
            out.push_back({"model.layers." + std::to_string(l) + "." + name, l});
    return out;
}

// cos in [0, D/2), sin in [D/2, D): the angle is one FP32 product, as in Transformers.
static void fill_rope_table(Backend& backend, const ModelSpec& spec, Tensor table) {
    const std::vector<double> frequencies = inverse_frequencies(spec.rope, spec.head_dim, spec.max_position);
    const int64_t half = spec.head_dim / 2;
    std::vector<float> host(static_cast<size_t>(table.size()));
    parallel::for_range(spec.max_position, 64, [&](int64_t begin, int64_t end, int) {
        for (int64_t p = begin; p < end; ++p)
            for (int64_t i = 0; i < half; ++i) {
                const float angle =
                    static_cast<float>(p) * static_cast<float>(frequencies[static_cast<size_t>(i)]);
                const auto [sine, cosine] = sin_cos(angle);
                float* row = host.data() + p * spec.head_dim;
                row[i] = static_cast<float>(cosine);
                row[half + i] = static_cast<float>(sine);
            }
    });
    backend.upload(table, host.data());
}

void Model::reserve(Arena& weights) {
    auto& net = impl_->net;
    const bool train = net.options.train;
    net.params.visit([&](Param& p) {
        p.master = weights.tensor(DType::f32, {p.rows, p.cols});
        if (p.kind == Param::Kind::vector) p.master = p.master.reshaped({p.cols});
        if (train) {
            p.grad = weights.tensor(DType::f32, {p.rows, p.cols});
            p.moment1 = weights.tensor(net.options.moments, {p.rows, p.cols});
            p.moment2 = weights.tensor(net.options.moments, {p.rows, p.cols});
            if (p.kind == Param::Kind::vector)
                for (Tensor* t : {&p.grad, &p.moment1, &p.moment2}) *t = t->reshaped({p.cols});
            for (const Tensor& t : {p.grad, p.moment1, p.moment2}) net.backend.zero(t);
        }
        if (p.kind == Param::Kind::vector) return;
        p.weight = net.backend.reserve_weight(p.rows, p.cols, p.weight.spec, weights);
        if (p.differs_in_rollout)
            p.rollout = net.backend.reserve_weight(p.rows, p.cols, p.rollout.spec, weights);
    });
    net.scales.reserve(weights);
    net.counters.reserve(weights);
    net.kv.reserve(weights);
    net.rope_table = weights.tensor(DType::f32, {net.spec.max_position, net.spec.head_dim});
    fill_rope_table(net.backend, net.spec, net.rope_table);
}

void Model::prepare() {
    params().visit([&](Param& p) {
        if (p.kind == Param::Kind::vector) return;
        backend().prepare(p.weight, p.master);
        if (p.differs_in_rollout) backend().prepare(p.rollout, p.master);
    });
}

void Model::zero_grad() {
    params().visit([&](Param& p) {
        if (p.grad) backend().zero(p.grad);
    });
}

void Model::check_pass(const Pass& pass) const {
    const int64_t n = pass.rows();
    check(n > 0 && static_cast<int64_t>(pass.positions.size()) == n, "pass: ", n, " tokens, ",
          pass.positions.size(), " positions");
    int64_t rows = 0;
    for (const Sequence& s : pass.sequences) {
        check(s.row == rows && s.rows > 0, "pass: sequences must follow one another without gaps");
        rows += s.rows;
    }
    check(rows == n, "pass: sequences hold ", rows, " of ", n, " rows");
    for (int64_t i = 0; i < n; ++i) {
        if (pass.ids[i] < 0 || pass.ids[i] >= spec().vocab)
            refuse("token id ", pass.ids[i], " is outside the vocabulary of ", spec().vocab);
        if (pass.positions[i] < 0 || pass.positions[i] >= spec().max_position)
            refuse("position ", pass.positions[i], " is outside the model's context of ",
                   spec().max_position);
    }
}

Tensor Model::forward(Pass& pass) {
    check_pass(pass);
    auto& net = impl_->net;
    const int64_t n = pass.rows(), c = net.spec.hidden;
    const bool keep = pass.saved && !net.options.recompute_block;
    Tensor hidden = pass.scratch.tensor(net.act(), {n, c});
    auto scope = pass.scratch.scope();
    Tensor delta = pass.scratch.tensor(net.act(), {n, c});
    // The residual stream where it is not saved.
    Tensor stream = keep ? Tensor() : pass.scratch.tensor(net.act(), {n, c});
    if (pass.saved) pass.saved->reserve(net.spec, n, net.act(), net.options.recompute_block);

    Tensor residual = pass.saved ? pass.saved->blocks[0].residual1 : stream;
    net.backend.embed(residual, impl_->embedding.used(pass.in_rollout), pass.ids);
    for (size_t l = 0; l < impl_->blocks.size(); ++l) {
        auto inner = pass.scratch.scope();
        BlockSaved passing;
        if (!keep) {
            passing.residual1 = pass.saved ? pass.saved->blocks[l].residual1 : stream;
            passing.residual2 = stream;
            passing.reserve_inner(pass.scratch, net.spec, n, net.act());
        }
        BlockSaved& s = keep ? pass.saved->blocks[l] : passing;
        impl_->blocks[l].forward(pass, s, residual, l ? delta : Tensor(), delta);
        residual = s.residual2;
    }
    Tensor last = pass.saved ? pass.saved->residual : stream;
    Tensor rstd = pass.saved ? pass.saved->rstd : pass.scratch.tensor(DType::f32, {n});
    impl_->final_norm.forward(hidden, last, rstd, residual, delta);
    return hidden;
}

void Model::backward(Pass& pass, Tensor dhidden) {
    auto& net = impl_->net;
    check(pass.saved && !pass.cache && !pass.in_rollout && !pass.calibrate && net.options.train,
          "backward needs a training pass with saved tensors");
    check(pass.saved->blocks.size() == impl_->blocks.size(), "backward before forward");
    const int64_t n = pass.rows(), c = net.spec.hidden;
    auto scope = pass.scratch.scope();
    Tensor dr = pass.scratch.tensor(net.act(), {n, c});  // gradient of the residual stream
    impl_->final_norm.backward(dr, dhidden, pass.saved->residual, pass.saved->rstd, true);
    for (size_t l = impl_->blocks.size(); l-- > 0;) {
        auto inner = pass.scratch.scope();
        const Block& block = impl_->blocks[l];
        if (!net.options.recompute_block) {
            block.backward(pass, dr, pass.saved->blocks[l]);
            continue;
        }
        BlockSaved again;
        again.residual1 = pass.saved->blocks[l].residual1;
        again.reserve_inner(pass.scratch, net.spec, n, net.act());
        Pass replay = pass;
        replay.replay = true;
        {
            auto output = pass.scratch.scope();
            Tensor delta = pass.scratch.tensor(net.act(), {n, c});
            block.forward(replay, again, again.residual1, {}, delta);
        }
        block.backward(pass, dr, again);
    }
    net.backend.embed_backward(impl_->embedding.grad, dr, pass.ids);
}

const Weight& Model::head(bool in_rollout) const { return impl_->head.used(in_rollout); }
Param& Model::head_param() { return impl_->head; }
Param& Model::embedding() { return impl_->embedding; }
ParamSet& Model::params() { return impl_->net.params; }
const ParamSet& Model::params() const { return impl_->net.params; }
KvScales& Model::kv_scales() { return impl_->net.kv; }
const ModelSpec& Model::spec() const { return impl_->net.spec; }
const ModelOptions& Model::options() const { return impl_->net.options; }
Backend& Model::backend() { return impl_->net.backend; }

size_t Model::saved_bytes(int64_t rows) const {
    Arena arena = Arena::counting("saved");
    Saved saved(arena);
    saved.reserve(spec(), rows, options().act, options().recompute_block);
    return arena.high_water();
}

}  // namespace fp8rl
