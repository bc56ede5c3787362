// fp8rl bench: what this machine does with a model's shapes and random weights. GEMMs by shape and precision,
// prefill, decode of 1 to 64 sequences, training, and whole GRPO steps at fixed work (every completion forced
// to full length, every sample with a gradient), each beside the fraction of the machine's own peak, measured
// in the same process. Progress and the table go to stderr, one JSON object to stdout.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>

#include "apps/bench.h"
#include "apps/commands.h"
#include "core/parallel.h"
#include "core/rng.h"
#include "cpu/peak.h"
#include "rl/optimizer.h"
#include "rl/session.h"
#include "rl/settings.h"
#include "rl/update.h"
#include "run/log.h"
#include "run/time_limit.h"

namespace fp8rl::apps {
namespace {

using run::monotonic_seconds;

struct Arguments {
    std::string shape = "smollm2-135m", precision = "blockwise", kv_cache = "bf16";
    std::vector<std::string> what, overrides;
    std::vector<int64_t> sequences = {1, 2, 4, 8, 16, 32, 64};
    int64_t threads = 0, repeat = 3;
};

// Shapes of the peers' scripts: a 4 M-parameter toy, and SmolLM2-135M, both with random weights.
struct Shape {
    const char* name;
    const char* init;
    int64_t prompts, samples, prompt_tokens, completion;  // of the fixed-work step
};
const Shape shapes[] = {
    {"toy", "{vocab_size: 512, hidden: 256, layers: 5, heads: 4, kv_heads: 2, ffn: 768, max_position: 1024}",
     8, 8, 4, 16},
    {"smollm2-135m",
     "{vocab_size: 49152, hidden: 576, layers: 30, heads: 9, kv_heads: 3, ffn: 1536, rope_theta: 100000, "
     "max_position: 1024}",
     4, 8, 24, 128},
};

const Shape& find_shape(const std::string& name) {
    for (const auto& s : shapes)
        if (s.name == name) return s;
    refuse("--shape ", name, ": toy or smollm2-135m");
}

Recipe bench_recipe(const Arguments& a, const Shape& s) {
    std::string text = cat(
        "name: bench\nmodel: {init: ", s.init, "}\nprecision: {recipe: ", a.precision,
        ", kv_cache: {format: ", a.kv_cache, "}}\ntask: {name: sort}\nrollout: {prompts: ", s.prompts,
        ", samples: ", s.samples, ", max_new_tokens: ", s.completion,
        ", slots: 64, chunk: 2048, ignore_eos: true}\noptimizer: {lr: 1e-6}\ntrain: {micro_tokens: 2048}\n");
    if (a.threads > 0) text += cat("device: {threads: ", a.threads, "}\n");
    return parse_recipe(text, "bench", a.overrides).recipe;
}

std::vector<int32_t> random_tokens(int64_t n, int64_t vocab, uint32_t key) {
    Random r(1, Stream::bench, key);
    std::vector<int32_t> ids(static_cast<size_t>(n));
    for (auto& id : ids) id = static_cast<int32_t>(r.integer(0, vocab - 1));
    return ids;
}

class Bench {
  public:
    Bench(rl::Session& session, const Shape& shape, int64_t repeat)
        : session_(session), shape_(shape), repeat_(repeat), dot_(cpu::dot_peak()), read_(cpu::read_peak()) {}

    void machine(run::Record& r) {
        r.set("peak/dot_gflops", dot_).set("peak/read_gb_per_sec", read_);
        say(cat("peak: dot ", fixed(dot_), " GFLOP/s, memory read ", fixed(read_), " GB/s"));
    }

    void prefill(run::Record& r) {
        const int64_t rows = 512;
        auto ids = random_tokens(rows, vocab(), 1);
        PackedBatch batch;
        batch.add(ids);
        double best = least([&] {
            auto scope = session_.scratch().scope();
            Pass pass{.backend = session_.backend(),
                      .scratch = session_.scratch(),
                      .ids = batch.ids,
                      .positions = batch.positions,
                      .sequences = batch.sequences(),
                      .in_rollout = true};
            session_.model().forward(pass);
        });
        const double flops = body_flops() * static_cast<double>(rows);
        put(r, "prefill", rows, static_cast<double>(rows) / best, flops / best);
    }

    void decode(run::Record& r, int64_t sequences) {
        const int64_t prompt = 32, tokens = 64;
        std::vector<std::vector<int32_t>> prompts;
        for (int64_t i = 0; i < sequences; ++i)
            prompts.push_back(random_tokens(prompt, vocab(), static_cast<uint32_t>(100 + i)));
        double best = 0;
        for (int64_t i = 0; i < repeat_; ++i) best = std::max(best, decode_rate(prompts, tokens));
        const double head = 2.0 * static_cast<double>(vocab() * session_.plan().spec.hidden);
        put(r, "decode", sequences, best, best * (body_flops() + head));
    }

    void training(run::Record& r) {
        auto samples = random_samples();
        double rows = 0;
        for (const auto& s : samples) rows += static_cast<double>(s.tokens.size());
        rl::UpdateSettings settings = rl::update_settings(session_.recipe(), false, true);
        rl::Updater updater(session_.model(), nullptr, session_.phase(), session_.scratch());
        double best = least([&] { updater.accumulate(samples, settings, 0, false); });
        session_.model().zero_grad();
        const double flops = 3 * body_flops() * rows + training_head_flops(samples);
        put(r, "training", static_cast<int64_t>(rows), rows / best, flops / best);
    }

    // Generation, comparison, backward and update of one step; nothing is skipped.
    void step(run::Record& r) {
        double best = 1e30, generate = 0, train = 0, update = 0;
        rl::Optimizer optimizer(session_.model(), rl::optimizer_settings(session_.recipe()));
        for (int64_t i = 0; i < repeat_; ++i) {
            const double t0 = monotonic_seconds();
            std::vector<std::vector<int32_t>> prompts;
            std::vector<Request> requests;
            for (int64_t p = 0; p < shape_.prompts; ++p)
                prompts.push_back(random_tokens(shape_.prompt_tokens, vocab(), static_cast<uint32_t>(p)));
            for (int64_t p = 0; p < shape_.prompts; ++p)
                for (int32_t s = 0; s < shape_.samples; ++s)
                    requests.push_back({static_cast<int32_t>(p), s, prompts[static_cast<size_t>(p)]});
            std::vector<Episode> episodes;
            {
                rl::Session::Rollout stage(session_);
                SamplingConfig sampling = session_.rollout_sampling();
                episodes = stage.engine().generate(requests, sampling, static_cast<uint32_t>(i));
            }
            const double t1 = monotonic_seconds();
            std::vector<rl::Sample> samples;
            for (size_t k = 0; k < episodes.size(); ++k) {
                const Episode& e = episodes[k];
                rl::Sample s;
                s.id = cat("sample ", k);
                s.tokens = e.prompt;
                s.prompt_tokens = static_cast<int32_t>(e.prompt.size());
                s.tokens.insert(s.tokens.end(), e.tokens.begin(), e.tokens.end());
                s.rollout_logp = e.logp;
                s.advantage = k % 2 ? 1.0f : -1.0f;
                samples.push_back(std::move(s));
            }
            rl::Updater updater(session_.model(), nullptr, session_.phase(), session_.scratch());
            const bool exact = session_.plan().exactness.exact;
            auto report =
                updater.accumulate(samples, rl::update_settings(session_.recipe(), false, exact), i, true);
            check(!exact || report.agreement.max_abs == 0, "bench: rollout and training disagree");
            const double t2 = monotonic_seconds();
            optimizer.update(i);
            session_.model().begin_step();
            const double t3 = monotonic_seconds();
            if (t3 - t0 < best) best = t3 - t0, generate = t1 - t0, train = t2 - t1, update = t3 - t2;
        }
        r.set("step/seconds", best)
            .set("step/generate_seconds", generate)
            .set("step/train_seconds", train)
            .set("step/update_seconds", update);
        say(cat("step, ", shape_.prompts * shape_.samples, " x ", shape_.completion,
                " tokens: ", fixed(best, 3), " s (generate ", fixed(generate, 3), ", train ", fixed(train, 3),
                ", update ", fixed(update, 3), ")"));
    }

    static void say(const std::string& line) { run::log::info(line); }
    static std::string fixed(double x, int digits = 1) {
        char b[64];
        std::snprintf(b, sizeof b, "%.*f", digits, x);
        return b;
    }
    double dot() const { return dot_; }

  private:
    int64_t vocab() const { return session_.plan().spec.vocab; }
    double body_flops() const {
        const ModelSpec& s = session_.plan().spec;
        const auto q = s.heads * s.head_dim, k = s.kv_heads * s.head_dim;
        return 2.0 * static_cast<double>(s.layers * (s.hidden * (2 * q + 2 * k) + 3 * s.hidden * s.ffn));
    }
    double training_head_flops(const std::vector<rl::Sample>& samples) const {
        double tokens = 0;
        for (const auto& s : samples) tokens += s.completion_tokens();
        return 3 * 2.0 * tokens * static_cast<double>(vocab() * session_.plan().spec.hidden);
    }
    std::vector<rl::Sample> random_samples() const {
        std::vector<rl::Sample> out;
        for (int64_t i = 0; i < shape_.prompts * shape_.samples; ++i) {
            rl::Sample s;
            s.id = cat("sample ", i);
            s.tokens =
                random_tokens(shape_.prompt_tokens + shape_.completion, vocab(), static_cast<uint32_t>(i));
            s.prompt_tokens = static_cast<int32_t>(shape_.prompt_tokens);
            s.rollout_logp.assign(static_cast<size_t>(shape_.completion), -1.0f);
            s.old_logp = s.rollout_logp;
            s.advantage = i % 2 ? 1.0f : -1.0f;
            out.push_back(std::move(s));
        }
        return out;
    }
    // Tokens per second of the iterations that only decode.
    double decode_rate(const std::vector<std::vector<int32_t>>& prompts, int64_t tokens) {
        std::vector<Request> requests;
        for (size_t i = 0; i < prompts.size(); ++i)
            requests.push_back({static_cast<int32_t>(i), 0, prompts[i]});
        SamplingConfig sampling = session_.rollout_sampling();
        sampling.max_new_tokens = tokens;
        rl::Session::Rollout stage(session_);
        double first = 0, last = 0;
        int64_t drawn = 0;
        const auto n = static_cast<int64_t>(requests.size());
        RolloutCallbacks callbacks;
        callbacks.on_token = [&](size_t, const Sampled&) {
            // The clock starts when every prompt has its first token.
            if (++drawn == n) first = monotonic_seconds();
            last = monotonic_seconds();
        };
        stage.engine().generate(requests, sampling, 0, callbacks);
        return static_cast<double>(drawn - n) / (last - first);
    }
    double least(const std::function<void()>& f) {
        double best = 1e30;
        for (int64_t i = 0; i <= repeat_; ++i) {
            const double start = monotonic_seconds();
            f();
            best = std::min(best, monotonic_seconds() - start);
        }
        return best;
    }
    void put(run::Record& r, const char* what, int64_t size, double rate, double flops) {
        const std::string key = cat(what, "/", size);
        r.set(key + "/tokens_per_sec", rate).set(key + "/fraction_of_dot_peak", flops * 1e-9 / dot_);
        say(cat(what, " ", size, ": ", fixed(rate), " tokens/s, ", fixed(flops * 1e-9), " GFLOP/s, ",
                fixed(100 * flops * 1e-9 / dot_), " % of the dot peak"));
    }

    rl::Session& session_;
    const Shape& shape_;
    int64_t repeat_;
    double dot_, read_;
};

int bench(const Arguments& a) {
    const Shape& shape = find_shape(a.shape);
    for (const auto& w : a.what)
        if (w != "gemm" && w != "prefill" && w != "decode" && w != "training" && w != "step")
            refuse("--what ", w, ": gemm, prefill, decode, training or step");
    auto wanted = [&](const char* w) {
        return a.what.empty() || std::count(a.what.begin(), a.what.end(), w) > 0;
    };
    Recipe recipe = bench_recipe(a, shape);
    auto backend = open_device(recipe);
    rl::Session session(recipe, *backend, rl::Session::Purpose::train, 64);
    session.load();
    session.model().zero_grad();
    calibrate_on(session, {random_tokens(64, session.plan().spec.vocab, 7)});
    run::Record r;
    r.set("device", backend->device())
        .set("shape", a.shape)
        .set("precision", a.precision)
        .set("kv_cache", a.kv_cache);
    r.set("threads", parallel::threads());
    run::log::info(cat(backend->device(), "; ", a.shape, ", ", a.precision, ", KV cache ", a.kv_cache));
    Bench b(session, shape, a.repeat);
    b.machine(r);
    if (wanted("gemm")) bench_gemm(r, *backend, session.plan().spec, b.dot());
    if (wanted("prefill")) b.prefill(r);
    if (wanted("decode"))
        for (int64_t n : a.sequences) b.decode(r, n);
    if (wanted("training")) b.training(r);
    if (wanted("step")) b.step(r);
    std::printf("%s\n", r.json().c_str());
    return 0;
}

}  // namespace

Action add_bench(CLI::App& app) {
    auto a = std::make_shared<Arguments>();
    app.add_option("--shape", a->shape, "toy (4 M parameters) or smollm2-135m; weights are random")
        ->capture_default_str();
    app.add_option("--what", a->what, "gemm, prefill, decode, training, step; default: all")->delimiter(',');
    app.add_option("--precision", a->precision, "bf16, per_tensor, blockwise or mxfp8")
        ->capture_default_str();
    app.add_option("--kv-cache", a->kv_cache, "bf16 or fp8")->capture_default_str();
    app.add_option("--sequences", a->sequences, "sequences decoded at once, at most 64")->delimiter(',');
    app.add_option("--threads", a->threads, "default: all");
    app.add_option("--repeat", a->repeat, "runs of each, the best counts")->capture_default_str();
    app.add_option("--set", a->overrides, "override a key of the bench's own recipe (repeatable)")
        ->take_all()
        ->allow_extra_args(false);
    return [a] { return bench(*a); };
}

}  // namespace fp8rl::apps
