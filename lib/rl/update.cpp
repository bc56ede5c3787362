#include "rl/update.h"

#include <algorithm>

#include "nn/saved.h"

namespace fp8rl::rl {

// A micro-batch: rows for the network, flat completion tokens for the loss.
struct Updater::Micro {
    std::span<const size_t> members;
    PackedBatch batch;
    std::vector<int32_t> rows;     // hidden row of each completion token
    std::vector<int32_t> targets;  // [tokens]
    std::vector<float> cutoffs;    // [tokens] or empty
    std::vector<int64_t> offsets{0};
    std::vector<uint8_t> mask;
    std::vector<float> rollout, old, advantage;  // [tokens]
    std::vector<float> logp, entropy, reference;

    Micro(const std::vector<Sample>& samples, std::span<const size_t> ids) : members(ids) {
        int32_t row = 0;
        for (size_t i : members) {
            const Sample& s = samples[i];
            batch.add(std::span(s.tokens).first(s.tokens.size() - 1));
            for (int32_t t = 0; t < s.completion_tokens(); ++t) {
                rows.push_back(row + s.prompt_tokens - 1 + t);
                targets.push_back(s.tokens[static_cast<size_t>(s.prompt_tokens + t)]);
            }
            row += static_cast<int32_t>(s.tokens.size()) - 1;
            auto n = static_cast<size_t>(s.completion_tokens());
            offsets.push_back(offsets.back() + static_cast<int64_t>(n));
            mask.insert(mask.end(), n, s.masked ? 0 : 1);
            advantage.insert(advantage.end(), n, s.advantage);
            rollout.insert(rollout.end(), s.rollout_logp.begin(), s.rollout_logp.end());
            old.insert(old.end(), s.old_logp.begin(), s.old_logp.end());
            cutoffs.insert(cutoffs.end(), s.cutoff.begin(), s.cutoff.end());
        }
        check(cutoffs.empty() || cutoffs.size() == targets.size(), "some samples lack their cut-off logits");
    }
    int64_t tokens() const { return static_cast<int64_t>(targets.size()); }
    TokenBatch tokens_view() const { return {offsets, mask}; }
};

std::vector<std::vector<size_t>> micro_batches(const std::vector<Sample>& samples,
                                               std::span<const size_t> members, int64_t micro_tokens) {
    std::vector<std::vector<size_t>> out;
    int64_t rows = 0;
    for (size_t i : members) {
        auto n = static_cast<int64_t>(samples[i].tokens.size()) - 1;
        if (n > micro_tokens)
            refuse("train.micro_tokens: ", micro_tokens, " cannot hold ", samples[i].id, " of ", n,
                   " tokens");
        if (out.empty() || rows + n > micro_tokens) out.emplace_back(), rows = 0;
        out.back().push_back(i);
        rows += n;
    }
    return out;
}

PassReport Updater::accumulate(std::vector<Sample>& samples, const UpdateSettings& settings, int64_t step,
                               bool first) {
    const bool always = settings.supervised || settings.loss.kl_beta > 0 || settings.loss.entropy != 0;
    std::vector<size_t> active, idle;
    global_ = {};
    for (size_t i = 0; i < samples.size(); ++i) {
        const Sample& s = samples[i];
        check(s.prompt_tokens >= 1, s.id, ": a sample needs a prompt");
        if (s.completion_tokens() < 1) continue;
        if (!s.masked) global_.tokens += s.completion_tokens(), ++global_.sequences;
        const bool gradient = !s.masked && (always || s.advantage != 0);
        (gradient ? active : idle).push_back(i);
    }
    PassReport report;
    report.samples_trained = static_cast<int64_t>(active.size());
    if (first && settings.verify_all && !settings.supervised)
        for (const auto& members : micro_batches(samples, idle, settings.micro_tokens)) {
            Micro m(samples, members);
            run(m, samples, settings, step, first, false, report);
        }
    for (const auto& members : micro_batches(samples, active, settings.micro_tokens)) {
        Micro m(samples, members);
        run(m, samples, settings, step, first, true, report);
        ++report.micro_batches;
    }
    return report;
}

void Updater::run(Micro& m, std::vector<Sample>& samples, const UpdateSettings& settings, int64_t step,
                  bool first, bool gradient, PassReport& report) {
    Backend& backend = model_.backend();
    auto phase_scope = phase_.scope();
    auto scratch_scope = scratch_.scope();
    const int64_t n = m.tokens(), width = model_.spec().hidden;
    const DType act = model_.options().act;
    Saved saved(phase_);
    Pass pass{.backend = backend,
              .scratch = scratch_,
              .ids = m.batch.ids,
              .positions = m.batch.positions,
              .sequences = m.batch.sequences(),
              .saved = gradient ? &saved : nullptr,
              .observe = true};
    Tensor hidden = model_.forward(pass);
    Tensor h = scratch_.tensor(act, {n, width});
    backend.gather_rows(h, hidden, m.rows);
    Tensor logp = scratch_.tensor(DType::f32, {n}), lse = scratch_.tensor(DType::f32, {n});
    Tensor entropy = scratch_.tensor(DType::f32, {n});
    const Weight& head = model_.head(false);
    backend.token_logprob(logp, entropy, lse, h, head, m.targets, m.cutoffs, settings.temperature);
    m.logp.resize(static_cast<size_t>(n));
    m.entropy.resize(static_cast<size_t>(n));
    backend.download(m.logp.data(), logp);
    backend.download(m.entropy.data(), entropy);

    if (first && !settings.supervised) {
        compare(m, samples, settings, step, report);
        for (size_t j = 0; j < m.members.size(); ++j) {
            Sample& s = samples[m.members[j]];
            auto begin = m.logp.begin() + m.offsets[j];
            // When exact these are the same bits; else the policy before the update is what training
            // computed.
            s.old_logp.assign(begin, begin + s.completion_tokens());
        }
        m.old = m.logp;
    }
    if (!gradient) return;
    report.rows_backward += m.batch.rows();

    Loss loss;
    if (settings.supervised) {
        loss = supervised_loss(m.tokens_view(), m.logp, global_, settings.loss.aggregate,
                               settings.loss.constant_length);
    } else {
        if (reference_) {
            auto scope = scratch_.scope();
            pass.saved = nullptr;
            pass.observe = false;
            Tensor other = reference_->forward(pass);
            Tensor rows = scratch_.tensor(act, {n, width}), unused = scratch_.tensor(DType::f32, {n});
            Tensor ref = scratch_.tensor(DType::f32, {n});
            backend.gather_rows(rows, other, m.rows);
            backend.token_logprob(ref, Tensor(), unused, rows, reference_->head(false), m.targets, m.cutoffs,
                                  settings.temperature);
            m.reference.resize(static_cast<size_t>(n));
            backend.download(m.reference.data(), ref);
            pass.saved = &saved;
        }
        Weights weights;
        if (!settings.exact)
            weights = correction_weights(m.tokens_view(), m.old, m.rollout, settings.correction);
        PolicyInput input;
        input.batch = m.tokens_view();
        input.logp = m.logp;
        input.old_logp = m.old;
        input.rollout_logp = m.rollout;
        input.reference_logp = m.reference;
        input.entropy = m.entropy;
        input.advantage = m.advantage;
        if (!weights.loss.empty()) input.weight = weights.loss;
        loss = policy_loss(input, global_, settings.loss);
    }
    merge(report.loss, loss.counters);

    Tensor dlogp = scratch_.tensor(DType::f32, {n}), dentropy;
    backend.upload(dlogp, loss.dlogp.data());
    if (!loss.dentropy.empty()) {
        dentropy = scratch_.tensor(DType::f32, {n});
        backend.upload(dentropy, loss.dentropy.data());
    }
    Tensor dh = scratch_.tensor(act, {n, width}), dhidden = scratch_.tensor(act, {m.batch.rows(), width});
    backend.token_logprob_backward(dh, model_.head_param().grad, dlogp, dentropy, lse, entropy, h, head,
                                   m.targets, m.cutoffs, settings.temperature);
    backend.scatter_rows(dhidden, dh, m.rows);
    model_.backward(pass, dhidden);
}

void Updater::compare(const Micro& m, const std::vector<Sample>& samples, const UpdateSettings& settings,
                      int64_t step, PassReport& report) const {
    // Masked samples take no part in the loss, but their log-probs are held to the same promise.
    std::vector<uint8_t> all(m.mask.size(), 1);
    TokenBatch tokens{m.offsets, all};
    if (settings.exact)
        if (auto bad = first_mismatch(tokens, m.logp, m.rollout))
            defect("step ", step, ", ", samples[m.members[static_cast<size_t>(bad->sequence)]].id, ", token ",
                   bad->token, ": rollout and training disagree, ", bad->text());
    Weights weights = correction_weights(tokens, m.logp, m.rollout, settings.correction);
    merge(report.agreement, agreement(tokens, m.logp, m.rollout, weights));
}

}  // namespace fp8rl::rl
