// rollout/engine: runs what the scheduler plans. One mixed batch of decode rows and prefill chunks a forward;
// the last row of each sequence that is due becomes logits, a draw, a token. Log-probs are recorded as drawn
// and are those of training's forward, bit for bit. Refused: an impossible sampling configuration, a prompt
// that leaves no position for a token, a sequence that does not fit the cache alone.
#pragma once
#include <functional>
#include <span>
#include <vector>

#include "nn/model.h"
#include "rollout/sampler.h"
#include "rollout/scheduler.h"

namespace fp8rl {

struct EngineConfig {
    SchedulerConfig schedule;
    int64_t logit_rows = 64;  // rows of [rows, V] f32 logits at once
};

// `request` counts in the span given to generate.
struct RolloutCallbacks {
    std::function<void(size_t request, const Sampled& token)> on_token;
    std::function<void(size_t request, const Episode& episode)> on_finish;
};

struct RolloutCounters : SchedulerCounters {
    double seconds = 0;
};

class Engine {
  public:
    // Uses the whole cache during generate and leaves nothing in it; scratch holds one iteration.
    Engine(Model& model, KvCache& cache, Arena& scratch, const EngineConfig& config);

    // One episode a request, in the order of requests. `step` keys the draws.
    std::vector<Episode> generate(std::span<const Request> requests, const SamplingConfig& sampling,
                                  uint32_t step, const RolloutCallbacks& callbacks = {});

    // Of the last generate.
    const RolloutCounters& counters() const { return counters_; }

    // Runs the largest iteration on a counting arena (a model on the shape backend): scratch's high water is
    // what generate needs for sequences of up to `max_tokens` positions.
    static void count_scratch(Model& model, KvCache& cache, Arena& scratch, const EngineConfig& config,
                              int64_t max_tokens);

  private:
    Tensor forward(const Iteration& it);
    void draw(const Iteration& it, Tensor hidden, std::span<const Request> requests,
              const SamplingConfig& sampling, uint32_t step, const std::vector<Episode>& episodes);
    Tensor gather(const Iteration& it, Tensor hidden, size_t first, size_t count);

    Model& model_;
    KvCache& cache_;
    Arena& scratch_;
    EngineConfig config_;
    RolloutCounters counters_;
    Tensor kept_;  // act [1, C], in scratch during generate: the scheduler's kept row
    std::vector<int32_t> rows_;
    std::vector<SampleParams> params_;
    std::vector<Sampled> drawn_;  // [draws of the iteration]
};

}  // namespace fp8rl
