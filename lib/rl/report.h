// rl/report: what the stages of a step found, as metrics. Names follow NeMo RL where it has the quantity;
// rates of quantized roles, mismatch and rollout counters are this program's own.
#pragma once
#include "rl/evaluate.h"
#include "rl/rollouts.h"
#include "rl/update.h"
#include "run/metrics.h"
#include "run/run_folder.h"

namespace fp8rl::rl {

void report_rollouts(run::Record& record, const Rollouts& rollouts);
// first: before the step's first update, when rollout and training are compared.
void report_pass(run::Record& record, const PassReport& pass, const UpdateSettings& settings, bool first);
void report_evaluation(run::Record& record, const Evaluation& evaluation);
// A line of an evaluation as completions.jsonl holds it.
run::Completion completion_of(const Evaluation::Line& line, int64_t step);
// Saturation and underflow of every quantized role since the last call, over all layers, and the worst layer.
void report_quantization(run::Record& record, Model& model);

}  // namespace fp8rl::rl
