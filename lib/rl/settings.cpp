#include "rl/settings.h"

namespace fp8rl::rl {

AdvantageConfig advantage_config(const Recipe& r) {
    AdvantageConfig c;
    c.std = r.algorithm.std == GroupStd::sample       ? AdvantageStd::sample
            : r.algorithm.std == GroupStd::population ? AdvantageStd::population
                                                      : AdvantageStd::none;
    c.epsilon = r.algorithm.std_epsilon;
    return c;
}

LossConfig loss_config(const Recipe& r) {
    LossConfig c;
    c.clip_low = r.algorithm.clip_low;
    c.clip_high = r.algorithm.clip_high;
    c.aggregate = r.algorithm.aggregate == fp8rl::Aggregate::token_mean      ? Aggregate::token_mean
                  : r.algorithm.aggregate == fp8rl::Aggregate::sequence_mean ? Aggregate::sequence_mean
                                                                             : Aggregate::constant_length;
    c.constant_length = static_cast<double>(r.algorithm.constant.value_or(r.rollout.max_new_tokens));
    c.kl_beta = r.algorithm.kl.beta;
    c.kl_kind = r.algorithm.kl.kind == fp8rl::KlKind::k1   ? KlKind::k1
                : r.algorithm.kl.kind == fp8rl::KlKind::k2 ? KlKind::k2
                                                           : KlKind::k3;
    c.entropy = r.algorithm.entropy;
    return c;
}

CorrectionRule correction_rule(const Recipe& r) {
    return {
        r.algorithm.correction.kind == CorrectionKind::none ? Correction::none : Correction::token_truncated,
        r.algorithm.correction.cap};
}

UpdateSettings update_settings(const Recipe& r, bool supervised, bool exact) {
    UpdateSettings s;
    s.supervised = supervised;
    s.loss = loss_config(r);
    s.correction = correction_rule(r);
    s.temperature = supervised ? 1.0f : static_cast<float>(r.rollout.temperature);
    s.micro_tokens = r.train.micro_tokens;
    s.exact = exact;
    s.verify_all = r.train.verify == Verify::all;
    return s;
}

OptimizerSettings optimizer_settings(const Recipe& r) {
    OptimizerSettings s;
    s.lr = r.optimizer.lr;
    s.weight_decay = r.optimizer.weight_decay;
    s.beta1 = r.optimizer.beta1;
    s.beta2 = r.optimizer.beta2;
    s.eps = r.optimizer.eps;
    s.grad_clip = r.optimizer.grad_clip;
    s.warmup_steps = r.optimizer.warmup_steps;
    s.schedule = r.optimizer.schedule == Schedule::constant ? LrSchedule::constant
                 : r.optimizer.schedule == Schedule::linear ? LrSchedule::linear
                                                            : LrSchedule::cosine;
    s.final_fraction = r.optimizer.final_fraction;
    s.total_steps = r.train.steps;
    s.decay_norms = r.optimizer.decay_norms;
    s.on_nonfinite = r.train.on_nonfinite == OnNonfinite::stop ? NonFinite::stop : NonFinite::skip;
    return s;
}

OptimizerSettings warmup_settings(const Recipe& r) {
    OptimizerSettings s = optimizer_settings(r);
    s.lr = r.warmup.lr;
    s.weight_decay = r.warmup.weight_decay;
    s.grad_clip = r.warmup.grad_clip;
    s.warmup_steps = r.warmup.warmup_steps;
    s.schedule = LrSchedule::constant;
    s.total_steps = r.warmup.steps;
    return s;
}

static const char* task_word(const TaskConfig& t) {
    switch (t.name) {
        case TaskName::sort: return "sort";
        case TaskName::arithmetic: return t.word_problems ? "word_problems" : "arithmetic";
        case TaskName::gsm8k: return "gsm8k";
        case TaskName::exact_match: return "exact_match";
        case TaskName::boxed_math: return "boxed_math";
        case TaskName::command: return "command";
    }
    defect("unknown task");
}

TaskOptions task_options(const Recipe& r, bool chat) {
    const TaskConfig& t = r.task;
    TaskOptions o;
    o.name = task_word(t);
    o.seed = r.seed;
    o.validation_size = t.validation_size;
    o.chat = chat;
    o.system_prompt = t.system_prompt;
    o.prompt = t.prompt;
    o.length = static_cast<int>(t.length);
    o.digits = static_cast<int>(t.digits);
    o.operands = static_cast<int>(t.operands);
    o.steps = static_cast<int>(t.problem_steps);
    o.reward_truncated = t.reward_truncated;
    o.operations.clear();
    for (auto op : t.operations)
        o.operations.push_back(op == fp8rl::Operation::add        ? Operation::add
                               : op == fp8rl::Operation::subtract ? Operation::subtract
                               : op == fp8rl::Operation::multiply ? Operation::multiply
                                                                  : Operation::divide);
    o.train_file = t.train.value_or("");
    o.validation_file = t.validation.value_or("");
    o.question_key = t.question_key;
    o.answer_key = t.answer_key;
    o.command = t.command.argv;
    o.time_limit = t.command.timeout;
    return o;
}

SamplingConfig rollout_sampling(const Recipe& r) {
    SamplingConfig s;
    s.temperature = static_cast<float>(r.rollout.temperature);
    s.top_p = static_cast<float>(r.rollout.top_p);
    s.top_k = static_cast<int32_t>(r.rollout.top_k);
    s.max_new_tokens = r.rollout.max_new_tokens;
    s.stop_strings = r.rollout.stop;
    s.ignore_eos = r.rollout.ignore_eos;
    s.seed = r.seed;
    return s;
}

SamplingConfig validation_sampling(const Recipe& r) {
    SamplingConfig s = rollout_sampling(r);
    s.temperature = static_cast<float>(r.validation.temperature);
    s.ignore_eos = false;
    if (s.greedy()) s.top_p = 1, s.top_k = 0;
    return s;
}

}  // namespace fp8rl::rl
