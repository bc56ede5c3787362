// rl/update: the part of a step that learns. Sequences are packed into micro-batches of at most micro_tokens
// rows; each goes forward, its log-probs meet the loss as a float array, dL/dlogp goes back down, gradients
// add up. Denominators are those of the whole batch (f05). Before the first update of a step every log-prob
// is compared with the rollout's, bit for bit: a difference where the plan promised none is a defect that
// names step, sample and token.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nn/model.h"
#include "rl/agreement.h"
#include "rl/correction.h"
#include "rl/loss.h"

namespace fp8rl::rl {

// One sequence as training sees it. The completion's log-probs are those of its tokens given what stands
// before them.
struct Sample {
    std::string id;                   // "prompt train/17, sample 3": names it in messages
    std::vector<int32_t> tokens;      // prompt, then completion
    int32_t prompt_tokens = 0;        // at least 1
    std::vector<float> rollout_logp;  // [completion]; empty in supervised steps
    std::vector<float> cutoff;        // [completion] top-p/top-k cut-off logits, or empty
    std::vector<float> old_logp;      // [completion] before the first update; the first pass fills it
    float advantage = 0;
    bool masked = false;  // takes no part in the loss

    int32_t completion_tokens() const { return static_cast<int32_t>(tokens.size()) - prompt_tokens; }
};

struct UpdateSettings {
    bool supervised = false;
    LossConfig loss;
    CorrectionRule correction;
    float temperature = 1;
    int64_t micro_tokens = 4096;  // rows of a micro-batch; a longer sequence is refused
    bool exact =
        true;  // the plan's verdict: old log-probs are the rollout's and must be found again, to the bit
    bool verify_all =
        true;  // samples without gradient (equal rewards, masked) still go forward to be compared
};

struct PassReport {
    LossCounters loss;
    AgreementCounters agreement;
    int64_t micro_batches = 0;
    int64_t rows_backward = 0;  // rows that went forward and backward
    int64_t samples_trained = 0;
    bool has_gradient() const { return samples_trained > 0; }
};

class Updater {
  public:
    // `reference` is the frozen model of the KL term, null without one. `phase` holds what backward needs.
    Updater(Model& model, Model* reference, Arena& phase, Arena& scratch)
        : model_(model), reference_(reference), phase_(phase), scratch_(scratch) {}

    // Adds the gradient of the loss over all samples. first: no update of this step has happened yet.
    PassReport accumulate(std::vector<Sample>& samples, const UpdateSettings& settings, int64_t step,
                          bool first);

  private:
    struct Micro;
    void run(Micro& m, std::vector<Sample>& samples, const UpdateSettings& settings, int64_t step, bool first,
             bool gradient, PassReport& report);
    void compare(const Micro& m, const std::vector<Sample>& samples, const UpdateSettings& settings,
                 int64_t step, PassReport& report) const;

    Model& model_;
    Model* reference_;
    Arena& phase_;
    Arena& scratch_;
    BatchCount global_;
};

// Members of [0, samples) cut into micro-batches in order; a sequence feeds its tokens but the last.
std::vector<std::vector<size_t>> micro_batches(const std::vector<Sample>& samples,
                                               std::span<const size_t> members, int64_t micro_tokens);

}  // namespace fp8rl::rl
