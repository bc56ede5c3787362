// recipe/recipe: a training run as plain structs. Nothing after the recipe sees YAML. The defaults here are
// the defaults of the recipe file; keys, ranges and documentation stand in recipe/fields.cpp, `fp8rl recipe
// show
// --docs` prints them. An optional without value is the recipe's `auto` (or `none` where the key says so).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "quant/policy.h"

namespace fp8rl {

// A Llama-family model built from scratch by seed, with a byte-level tokenizer (256 bytes, then specials).
struct ModelInit {
    int64_t vocab_size = 264;
    int64_t hidden = 128;
    int64_t layers = 3;
    int64_t heads = 4;
    int64_t kv_heads = 2;
    std::optional<int64_t> head_dim;  // auto: hidden / heads
    int64_t ffn = 384;
    double rope_theta = 10000.0;
    double rms_eps = 1e-5;
    bool tied = true;             // the LM head is the embedding
    bool qk_norm = false;         // RMSNorm on each head's Q and K
    bool attention_bias = false;  // biases on q, k, v
    int64_t max_position = 2048;
    double init_std = 0.02;
    std::string tokenizer = "bytes";
    bool operator==(const ModelInit&) const = default;
};

// Exactly one of the two is given.
struct ModelConfig {
    std::optional<std::string> path;  // a GGUF file
    std::optional<ModelInit> init;
    bool operator==(const ModelConfig&) const = default;
};

struct Precision {
    PrecisionRules train;                   // the keys of `precision:` itself
    std::optional<PrecisionRules> rollout;  // absent: `rollout: same`
    const PrecisionRules& for_rollout() const { return rollout ? *rollout : train; }
    bool operator==(const Precision&) const = default;
};

enum class TaskName : uint8_t { sort, arithmetic, gsm8k, exact_match, boxed_math, command };
enum class Operation : uint8_t { add, subtract, multiply, divide };
enum class PromptFormat : uint8_t { automatic, chat, plain };

struct CommandTask {
    std::vector<std::string> argv;
    double timeout = 60;  // seconds for one batch of rewards
    bool operator==(const CommandTask&) const = default;
};

struct TaskConfig {
    TaskName name = TaskName::sort;
    std::string system_prompt;
    std::string prompt = "{question}";              // the user message; {question} is the problem's text
    PromptFormat format = PromptFormat::automatic;  // automatic: chat when the model brings a template
    std::optional<int64_t> max_prompt_tokens;       // longer prompts are left out and counted; auto: no limit
    int64_t validation_size = 200;                  // problems held out (generated tasks) or read (files)
    bool shuffle_rewards = false;                   // control experiment: rewards permuted within the batch
    int64_t length = 5;                             // sort: digits to be sorted
    int64_t digits = 2;                             // arithmetic: largest number of digits of an operand
    int64_t operands = 2;                           // arithmetic
    std::vector<Operation> operations = {Operation::add, Operation::subtract};  // arithmetic
    bool word_problems = false;                                                 // arithmetic: as a sentence
    int64_t problem_steps = 0;                     // word problems: 1, 2, or 0 for both
    bool reward_truncated = false;                 // a completion cut off at the limit may still be right
    std::optional<std::string> train, validation;  // JSON lines; gsm8k, exact_match, boxed_math, command
    std::string question_key = "question", answer_key = "answer";  // of those lines
    CommandTask command;
    bool operator==(const TaskConfig&) const = default;
};

struct RolloutConfig {
    int64_t prompts = 8;  // per step
    int64_t samples = 8;  // per prompt: the group
    int64_t max_new_tokens = 256;
    double temperature = 1.0;
    double top_p = 1.0;
    int64_t top_k = 0;                 // 0: off
    std::vector<std::string> stop;     // strings that end a completion
    std::vector<int64_t> stop_ids;     // added to the model's own
    bool ignore_eos = false;           // every completion runs to max_new_tokens
    std::optional<int64_t> slots;      // sequences decoded at once; auto: from the plan
    std::optional<int64_t> kv_memory;  // bytes; auto: what all slots need, as far as memory goes
    int64_t chunk = 512;               // prompt tokens prefilled at once
    bool prefix_sharing = true;        // a group shares its prompt's pages
    int64_t log_completions = 4;       // completions written to the run folder, per step
    bool operator==(const RolloutConfig&) const = default;
};

enum class AlgorithmName : uint8_t { grpo, sft };
enum class Aggregate : uint8_t { token_mean, sequence_mean, constant_length };
enum class GroupStd : uint8_t { sample, population, none };
enum class KlKind : uint8_t { k1, k2, k3 };
enum class CorrectionKind : uint8_t { none, token_truncated };

struct KlConfig {
    double beta = 0;  // 0: no reference model is kept
    KlKind kind = KlKind::k3;
    bool operator==(const KlConfig&) const = default;
};

struct CorrectionConfig {
    CorrectionKind kind = CorrectionKind::none;
    double cap = 2;
    bool operator==(const CorrectionConfig&) const = default;
};

struct AlgorithmConfig {
    AlgorithmName name = AlgorithmName::grpo;
    double clip_low = 0.2, clip_high = 0.2;  // `clip: [low, high]`: ratio kept in [1 - low, 1 + high]
    Aggregate aggregate = Aggregate::token_mean;
    std::optional<int64_t> constant;  // constant_length divides by it; auto: rollout.max_new_tokens
    GroupStd std = GroupStd::sample;
    double std_epsilon = 1e-6;  // added to the group's standard deviation
    KlConfig kl;
    double entropy = 0;  // bonus coefficient
    CorrectionConfig correction;
    int64_t updates_per_step = 1;
    bool mask_truncated = false;  // completions without an end do not enter the loss
    bool refill_equal_groups = false;
    int64_t refill_tries = 10;  // rollouts of one step at most
    int64_t batch = 64;         // sft: problems per step
    bool operator==(const AlgorithmConfig&) const = default;
};

// Supervised steps on the task's own solutions before RL, with an optimizer state of their own.
struct WarmupConfig {
    int64_t steps = 0;
    int64_t batch = 64;  // problems per step
    double lr = 1e-3;
    int64_t warmup_steps = 20;  // linear rise of lr
    double grad_clip = 1.0;
    double weight_decay = 0;
    bool operator==(const WarmupConfig&) const = default;
};

enum class Schedule : uint8_t { constant, linear, cosine };
enum class MomentType : uint8_t { fp32, bf16 };

struct OptimizerConfig {
    double lr = 1e-6;
    double weight_decay = 0;
    double beta1 = 0.9, beta2 = 0.95;  // `betas: [beta1, beta2]`
    double eps = 1e-8;
    double grad_clip = 1.0;  // largest global norm; 0: no clipping
    int64_t warmup_steps = 10;
    Schedule schedule = Schedule::constant;
    double final_fraction = 0.1;  // of lr, where linear and cosine end
    MomentType moments = MomentType::fp32;
    bool decay_norms = false;  // weight decay on norms and biases too
    bool operator==(const OptimizerConfig&) const = default;
};

enum class Recompute : uint8_t { none, block };
enum class Verify : uint8_t { all, trained };
enum class OnNonfinite : uint8_t { stop, skip };

struct TrainConfig {
    int64_t steps = 200;
    int64_t micro_tokens = 4096;  // tokens of one packed micro-batch at most
    Recompute recompute = Recompute::none;
    OnNonfinite on_nonfinite = OnNonfinite::stop;
    Verify verify = Verify::all;  // log-probs compared before a step's first update
    bool operator==(const TrainConfig&) const = default;
};

struct ValidationConfig {
    bool at_start = true;
    int64_t every = 10;  // steps; 0: never in between
    bool at_end = true;
    int64_t samples = 1;
    double temperature = 0;       // 0: greedy
    std::optional<int64_t> size;  // problems used; auto: all of task.validation_size
    bool operator==(const ValidationConfig&) const = default;
};

struct CheckpointConfig {
    std::string dir = "runs/{name}";  // {name} is expanded when the recipe is read
    int64_t every = 50;               // steps; 0: only at the end
    int64_t keep = 3;
    bool keep_best = true;             // by validation accuracy, beside those kept
    double before_time_limit = 300;    // seconds
    std::optional<double> time_limit;  // seconds of wall clock for this process; none: Slurm's, if any
    bool operator==(const CheckpointConfig&) const = default;
};

enum class BackendChoice : uint8_t { automatic, cpu, cuda };
enum class MathMode : uint8_t { fast, exact };

struct DeviceConfig {
    BackendChoice backend = BackendChoice::automatic;
    std::optional<int64_t> threads;  // auto: what the machine offers
    MathMode math = MathMode::fast;
    bool operator==(const DeviceConfig&) const = default;
};

struct Recipe {
    std::string name = "run";
    std::optional<std::string> note;
    ModelConfig model;
    Precision precision;
    TaskConfig task;
    RolloutConfig rollout;
    AlgorithmConfig algorithm;
    WarmupConfig warmup;
    OptimizerConfig optimizer;
    TrainConfig train;
    ValidationConfig validation;
    CheckpointConfig checkpoint;
    DeviceConfig device;
    uint64_t seed = 1;
    bool operator==(const Recipe&) const = default;
};

}  // namespace fp8rl
