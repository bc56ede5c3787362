// recipe/fields: one line per key: where it lives, how it is read, what it means. Defaults are those of
// recipe/recipe.h; the documentation prints them from there.
#include "recipe/fields.h"

#include "core/error.h"
#include "recipe/codec.h"

namespace fp8rl::recipe {

// The member `path` of a Recipe (or of whatever `r` is), const or not.
#define FP8RL_AT(path) \
    [](auto& r) -> auto& { return r.path; }

namespace {

template <class At, class Codec>
Field field(std::string key, At at, Codec codec, std::string doc) {
    return {std::move(key), codec.type(), std::move(doc),
            [at, codec](Recipe& r, const Value& v) { at(r) = codec.read(v); },
            [at, codec](const Recipe& r) { return codec.write(at(r)); }};
}

// Two numbers under one key; a single number means both when `single_allowed`.
template <class First, class Second>
Field pair_field(std::string key, First first, Second second, Number number, bool single_allowed,
                 std::string doc) {
    return {std::move(key), cat("[", number.type(), ", the same]", single_allowed ? ", or one for both" : ""),
            std::move(doc),
            [=](Recipe& r, const Value& v) {
                if (single_allowed && v.kind == Value::Kind::scalar) {
                    first(r) = second(r) = number.read(v);
                    return;
                }
                const auto both = ListOf<Number>{number}.read(v);
                if (both.size() != 2) throw Mismatch{"two numbers are needed, like [a, b]"};
                first(r) = both[0], second(r) = both[1];
            },
            [=](const Recipe& r) {
                return ListOf<Number>{number}.write({first(r), second(r)});
            }};
}

const Number any_number{};
const Number positive{0, any_number.high, true};
const Number not_negative{0};
const Number fraction{0, 1};
const Number beta{0, 1, false, true};
// Far above any use, far below where products of them overflow.
const Integer count{0, 1'000'000'000};
const Integer at_least_one{1, 1 << 24};
const Boolean boolean{};
const Text text{};
const Text filled{false};
const Duration duration{};
using Strings = ListOf<Text>;
using Integers = ListOf<Integer>;
using Path = Maybe<Text>;
using Size = Maybe<Integer>;
const Size automatic_size{"auto", {1, 1 << 24}};
const Path path{"none", {false}};

void add_model(std::vector<Field>& f) {
    f.push_back(field("model.path", FP8RL_AT(model.path), path, "a GGUF file"));
    auto init = [&](const char* key, auto at, auto codec, const char* doc) {
        f.push_back(field(
            std::string("model.init.") + key, [at](auto& r) -> auto& { return at(*r.model.init); }, codec,
            doc));
    };
    init("vocab_size", FP8RL_AT(vocab_size), Integer{264, 1 << 24},
         "rows of the embedding; 256 bytes and specials at least");
    init("hidden", FP8RL_AT(hidden), Integer{1, 1 << 20}, "width of the residual stream");
    init("layers", FP8RL_AT(layers), Integer{1, 1000}, "decoder blocks");
    init("heads", FP8RL_AT(heads), Integer{1, 4096}, "query heads");
    init("kv_heads", FP8RL_AT(kv_heads), Integer{1, 4096}, "key and value heads; divides heads");
    init("head_dim", FP8RL_AT(head_dim), Size{"auto", {2, 256}},
         "elements of a head, even; auto: hidden / heads");
    init("ffn", FP8RL_AT(ffn), Integer{1, 1 << 22}, "inner width of the SwiGLU MLP");
    init("rope_theta", FP8RL_AT(rope_theta), Number{1, 1e12}, "base of the rotary frequencies");
    init("rms_eps", FP8RL_AT(rms_eps), Number{1e-20, 1}, "epsilon of every RMSNorm");
    init("tied", FP8RL_AT(tied), boolean, "the LM head is the embedding table");
    init("qk_norm", FP8RL_AT(qk_norm), boolean, "RMSNorm on each head of Q and K");
    init("attention_bias", FP8RL_AT(attention_bias), boolean, "biases on the q, k and v projections");
    init("max_position", FP8RL_AT(max_position), Integer{1, 1 << 24},
         "longest sequence, prompt and completion together");
    init("init_std", FP8RL_AT(init_std), Number{1e-6, 10}, "standard deviation of the initial weights");
    init("tokenizer", FP8RL_AT(tokenizer), Text{false}, "bytes: one token a byte, then special tokens");
}

// The keys of `precision:` and of `precision.rollout:`, which differ in `backward` and `scale_rule`.
template <class At>
void add_rules(std::vector<Field>& f, const std::string& prefix, At rules, bool rollout) {
    auto add = [&](const char* key, auto at, auto codec, const char* doc) {
        f.push_back(field(
            prefix + key, [ rules, at ](auto& r) -> auto& { return at(rules(r)); }, codec, doc));
    };
    add("recipe", FP8RL_AT(recipe),
        Choice<PrecisionMode>{{"bf16", "fp32", "per_tensor", "blockwise", "mxfp8"}},
        "what linear layers compute in; fp32 is the slow path of tests");
    add("pow2_scales", FP8RL_AT(pow2_scales), boolean,
        "round FP32 scales to powers of two, so that nothing saturates (per_tensor, blockwise)");
    if (rollout)
        add("scale_rule", FP8RL_AT(scale_rule), Choice<ScaleRule>{{"te", "vllm"}},
            "vllm: scale max(amax, 1e-10)/448, x divided by it, as a two-engine stack would");
    add("per_tensor.scaling", FP8RL_AT(per_tensor.scaling), Choice<Scaling>{{"current", "delayed", "static"}},
        "activations: from the values at hand (not exact), from past steps, or a number");
    add("per_tensor.history", FP8RL_AT(per_tensor.history), Integer{1, 65536},
        "delayed: steps whose amax is kept");
    add("per_tensor.margin", FP8RL_AT(per_tensor.margin), Integer{0, 16},
        "delayed: head room in powers of two");
    add("per_tensor.amax", FP8RL_AT(per_tensor.amax), Choice<AmaxRule>{{"max", "most_recent"}},
        "delayed: which amax of the history counts");
    add("per_tensor.static_scale", FP8RL_AT(per_tensor.static_scale), Number{1e-30, 1e30},
        "static: value = code * static_scale");
    if (!rollout)
        add("backward", FP8RL_AT(backward), Choice<BackwardFormat>{{"e4m3", "e5m2", "bf16"}},
            "gradients of linear layers; bf16 leaves the whole backward pass in BF16");
    add("bf16.first_layers", FP8RL_AT(bf16.first_layers), count, "layers at the input that stay BF16");
    add("bf16.last_layers", FP8RL_AT(bf16.last_layers), count, "layers at the output that stay BF16");
    add("bf16.modules", FP8RL_AT(bf16.modules), ListOf<Text>{filled},
        "patterns (*, ?) of whole module names that stay BF16, such as *.down_proj");
    add("kv_cache.format", FP8RL_AT(kv_cache.format), Choice<CacheFormat>{{"bf16", "fp8"}},
        "what K and V are kept in, for rollout and training alike");
    add("kv_cache.recalibrate", FP8RL_AT(kv_cache.recalibrate), Choice<Recalibrate>{{"train", "prompts"}},
        "fp8: new scales each step from the training pass (free) or from a pass over the next prompts");
    add("kv_cache.margin", FP8RL_AT(kv_cache.margin), Number{1, 16},
        "fp8: scale = amax * margin / largest code");
    add("kv_cache.max_saturated", FP8RL_AT(kv_cache.max_saturated), fraction,
        "fp8: a layer with a larger share of saturated values falls back to BF16, loudly; 0: never");
    add("attention", FP8RL_AT(attention), Choice<CacheFormat>{{"bf16", "fp8"}},
        "fp8: Q and P are quantized too; needs an fp8 KV cache");
}

void add_task(std::vector<Field>& f) {
    f.push_back(
        field("task.name", FP8RL_AT(task.name),
              Choice<TaskName>{{"sort", "arithmetic", "gsm8k", "exact_match", "boxed_math", "command"}},
              "sort and arithmetic are generated, the others read files"));
    f.push_back(field("task.system_prompt", FP8RL_AT(task.system_prompt), text,
                      "first message of a chat; empty: none"));
    f.push_back(
        field("task.prompt", FP8RL_AT(task.prompt), filled, "the user's message; {question} is the problem"));
    f.push_back(field("task.format", FP8RL_AT(task.format), Choice<PromptFormat>{{"auto", "chat", "plain"}},
                      "auto: the model's chat template when it has one"));
    f.push_back(field("task.max_prompt_tokens", FP8RL_AT(task.max_prompt_tokens), automatic_size,
                      "longer prompts are left out and counted; auto: no limit"));
    f.push_back(field("task.validation_size", FP8RL_AT(task.validation_size), count,
                      "problems never trained on; 0: the whole validation file"));
    f.push_back(field("task.shuffle_rewards", FP8RL_AT(task.shuffle_rewards), boolean,
                      "control experiment: rewards are permuted within the batch"));
    f.push_back(field("task.reward_truncated", FP8RL_AT(task.reward_truncated), boolean,
                      "a completion cut off at max_new_tokens may still be right"));
    f.push_back(field("task.length", FP8RL_AT(task.length), Integer{2, 64}, "sort: digits to be sorted"));
    f.push_back(
        field("task.digits", FP8RL_AT(task.digits), Integer{1, 9}, "arithmetic: most digits of a number"));
    f.push_back(
        field("task.operands", FP8RL_AT(task.operands), Integer{2, 8}, "arithmetic: numbers in a problem"));
    f.push_back(field("task.operations", FP8RL_AT(task.operations),
                      ListOf<Choice<Operation>>{{{"add", "subtract", "multiply", "divide"}}, 1},
                      "arithmetic: drawn from for each problem"));
    f.push_back(field("task.word_problems", FP8RL_AT(task.word_problems), boolean,
                      "arithmetic: told as short stories"));
    f.push_back(field("task.problem_steps", FP8RL_AT(task.problem_steps), Integer{0, 2},
                      "word problems: steps of a solution; 0: one or two"));
    f.push_back(field("task.train", FP8RL_AT(task.train), path, "JSON lines to train on (file tasks)"));
    f.push_back(field("task.validation", FP8RL_AT(task.validation), path,
                      "JSON lines to validate on; none: lines of `train` are set aside"));
    f.push_back(
        field("task.question_key", FP8RL_AT(task.question_key), filled, "the question in those lines"));
    f.push_back(field("task.answer_key", FP8RL_AT(task.answer_key), filled, "the answer in those lines"));
    f.push_back(field("task.command.argv", FP8RL_AT(task.command.argv), Strings{text},
                      "command: program and arguments; JSON lines in, rewards out; no shell"));
    f.push_back(field("task.command.timeout", FP8RL_AT(task.command.timeout), duration,
                      "command: for the rewards of one batch"));
}

void add_rollout(std::vector<Field>& f) {
    f.push_back(field("rollout.prompts", FP8RL_AT(rollout.prompts), at_least_one, "prompts of a step"));
    f.push_back(field("rollout.samples", FP8RL_AT(rollout.samples), at_least_one,
                      "completions of a prompt: its group"));
    f.push_back(field("rollout.max_new_tokens", FP8RL_AT(rollout.max_new_tokens), at_least_one,
                      "tokens of a completion at most, end-of-sequence included"));
    f.push_back(field("rollout.temperature", FP8RL_AT(rollout.temperature), Number{1e-6, 1e6},
                      "of sampling, and of the training log-probs"));
    f.push_back(
        field("rollout.top_p", FP8RL_AT(rollout.top_p), Number{1e-6, 1}, "mass of the tokens kept; 1: all"));
    f.push_back(field("rollout.top_k", FP8RL_AT(rollout.top_k), Integer{0, 1 << 24}, "tokens kept; 0: all"));
    f.push_back(
        field("rollout.stop", FP8RL_AT(rollout.stop), ListOf<Text>{filled}, "strings that end a completion"));
    f.push_back(field("rollout.stop_ids", FP8RL_AT(rollout.stop_ids), Integers{{0, 1 << 24}},
                      "token ids that end a completion, beside the model's own"));
    f.push_back(field("rollout.ignore_eos", FP8RL_AT(rollout.ignore_eos), boolean,
                      "every completion runs to max_new_tokens (measurements)"));
    f.push_back(field("rollout.slots", FP8RL_AT(rollout.slots), automatic_size,
                      "sequences decoded at once; auto: the plan's"));
    f.push_back(field("rollout.kv_memory", FP8RL_AT(rollout.kv_memory), Maybe<Bytes>{"auto", {}},
                      "of the KV cache; auto: what all slots need"));
    f.push_back(
        field("rollout.chunk", FP8RL_AT(rollout.chunk), at_least_one, "prompt tokens prefilled at once"));
    f.push_back(field("rollout.prefix_sharing", FP8RL_AT(rollout.prefix_sharing), boolean,
                      "a group shares its prompt's part of the KV cache"));
    f.push_back(field("rollout.log_completions", FP8RL_AT(rollout.log_completions), count,
                      "completions of a step written to the run folder"));
}

void add_algorithm(std::vector<Field>& f) {
    f.push_back(field("algorithm.name", FP8RL_AT(algorithm.name), Choice<AlgorithmName>{{"grpo", "sft"}},
                      "sft: supervised steps on the task's solutions"));
    f.push_back(pair_field("algorithm.clip", FP8RL_AT(algorithm.clip_low), FP8RL_AT(algorithm.clip_high),
                           not_negative, true,
                           "[low, high]: the probability ratio counts within [1 - low, 1 + high]"));
    f.push_back(field("algorithm.aggregate", FP8RL_AT(algorithm.aggregate),
                      Choice<Aggregate>{{"token_mean", "sequence_mean", "constant_length"}},
                      "how token losses of the whole batch become one number"));
    f.push_back(field("algorithm.constant", FP8RL_AT(algorithm.constant), automatic_size,
                      "constant_length: the length; auto: rollout.max_new_tokens"));
    f.push_back(field("algorithm.std", FP8RL_AT(algorithm.std),
                      Choice<GroupStd>{{"sample", "population", "none"}},
                      "what a group's advantages are divided by"));
    f.push_back(field("algorithm.std_epsilon", FP8RL_AT(algorithm.std_epsilon), not_negative,
                      "added to that deviation"));
    f.push_back(field("algorithm.kl.beta", FP8RL_AT(algorithm.kl.beta), not_negative,
                      "weight of the divergence from the frozen first model; 0: none is kept"));
    f.push_back(field("algorithm.kl.kind", FP8RL_AT(algorithm.kl.kind), Choice<KlKind>{{"k1", "k2", "k3"}},
                      "estimator of that divergence"));
    f.push_back(
        field("algorithm.entropy", FP8RL_AT(algorithm.entropy), any_number, "weight of the entropy bonus"));
    f.push_back(field("algorithm.correction.kind", FP8RL_AT(algorithm.correction.kind),
                      Choice<CorrectionKind>{{"none", "token_truncated"}},
                      "importance weights for a rollout that differs: min(ratio, cap) a token"));
    f.push_back(field("algorithm.correction.cap", FP8RL_AT(algorithm.correction.cap), positive,
                      "largest such weight"));
    f.push_back(field("algorithm.updates_per_step", FP8RL_AT(algorithm.updates_per_step), at_least_one,
                      "optimizer updates on one rollout"));
    f.push_back(field("algorithm.mask_truncated", FP8RL_AT(algorithm.mask_truncated), boolean,
                      "completions cut off at max_new_tokens stay out of the loss"));
    f.push_back(field("algorithm.refill_equal_groups", FP8RL_AT(algorithm.refill_equal_groups), boolean,
                      "groups of equal rewards are replaced by new prompts"));
    f.push_back(field("algorithm.refill_tries", FP8RL_AT(algorithm.refill_tries), at_least_one,
                      "rollouts of a step at most, while refilling"));
    f.push_back(field("algorithm.batch", FP8RL_AT(algorithm.batch), at_least_one, "sft: problems of a step"));
}

void add_optimizers(std::vector<Field>& f) {
    f.push_back(field("warmup.steps", FP8RL_AT(warmup.steps), count, "supervised steps before RL"));
    f.push_back(field("warmup.batch", FP8RL_AT(warmup.batch), at_least_one, "problems of such a step"));
    f.push_back(field("warmup.lr", FP8RL_AT(warmup.lr), not_negative, "learning rate"));
    f.push_back(
        field("warmup.warmup_steps", FP8RL_AT(warmup.warmup_steps), count, "linear rise of that rate"));
    f.push_back(field("warmup.grad_clip", FP8RL_AT(warmup.grad_clip), not_negative,
                      "largest gradient norm; 0: no limit"));
    f.push_back(
        field("warmup.weight_decay", FP8RL_AT(warmup.weight_decay), not_negative, "decoupled weight decay"));

    f.push_back(field("optimizer.lr", FP8RL_AT(optimizer.lr), not_negative, "learning rate of AdamW"));
    f.push_back(field("optimizer.weight_decay", FP8RL_AT(optimizer.weight_decay), not_negative,
                      "decoupled weight decay"));
    f.push_back(pair_field("optimizer.betas", FP8RL_AT(optimizer.beta1), FP8RL_AT(optimizer.beta2), beta,
                           false, "decay of the two moments"));
    f.push_back(
        field("optimizer.eps", FP8RL_AT(optimizer.eps), positive, "added to the root of the second moment"));
    f.push_back(field("optimizer.grad_clip", FP8RL_AT(optimizer.grad_clip), not_negative,
                      "largest gradient norm; 0: no limit"));
    f.push_back(
        field("optimizer.warmup_steps", FP8RL_AT(optimizer.warmup_steps), count, "linear rise of lr"));
    f.push_back(field("optimizer.schedule", FP8RL_AT(optimizer.schedule),
                      Choice<Schedule>{{"constant", "linear", "cosine"}}, "of lr after that rise"));
    f.push_back(field("optimizer.final_fraction", FP8RL_AT(optimizer.final_fraction), fraction,
                      "of lr, where linear and cosine end"));
    f.push_back(field("optimizer.moments", FP8RL_AT(optimizer.moments), Choice<MomentType>{{"fp32", "bf16"}},
                      "what AdamW's moments are kept in"));
    f.push_back(field("optimizer.decay_norms", FP8RL_AT(optimizer.decay_norms), boolean,
                      "weight decay also on norms and biases"));
}

void add_run(std::vector<Field>& f) {
    f.push_back(field("train.steps", FP8RL_AT(train.steps), count, "steps after the warm-up"));
    f.push_back(field("train.micro_tokens", FP8RL_AT(train.micro_tokens), at_least_one,
                      "tokens of a packed micro-batch; a longer sequence has one of its own"));
    f.push_back(field(
        "train.recompute", FP8RL_AT(train.recompute), Choice<Recompute>{{"none", "block"}},
        "block: a layer's activations are computed again in the backward pass; same bits, less memory"));
    f.push_back(field(
        "train.verify", FP8RL_AT(train.verify), Choice<Verify>{{"all", "trained"}},
        "which log-probs are compared with the rollout's before the first update: all, at the cost of a "
        "forward for samples without a gradient, or only those that training computes anyway"));
    f.push_back(field("train.on_nonfinite", FP8RL_AT(train.on_nonfinite),
                      Choice<OnNonfinite>{{"stop", "skip"}},
                      "a gradient with NaN or Inf ends the run, or the update is skipped and counted"));

    f.push_back(
        field("validation.at_start", FP8RL_AT(validation.at_start), boolean, "before the first step"));
    f.push_back(
        field("validation.every", FP8RL_AT(validation.every), count, "steps between validations; 0: none"));
    f.push_back(field("validation.at_end", FP8RL_AT(validation.at_end), boolean, "after the last step"));
    f.push_back(
        field("validation.samples", FP8RL_AT(validation.samples), at_least_one, "completions of a problem"));
    f.push_back(field("validation.temperature", FP8RL_AT(validation.temperature), Number{0, 1e6},
                      "of sampling; 0: greedy"));
    f.push_back(field("validation.size", FP8RL_AT(validation.size), automatic_size,
                      "problems used; auto: all of task.validation_size"));

    f.push_back(field("checkpoint.dir", FP8RL_AT(checkpoint.dir), filled,
                      "the run folder; {name} is the recipe's name"));
    f.push_back(field("checkpoint.every", FP8RL_AT(checkpoint.every), count, "steps; 0: only at the end"));
    f.push_back(field("checkpoint.keep", FP8RL_AT(checkpoint.keep), at_least_one, "newest ones kept"));
    f.push_back(field("checkpoint.keep_best", FP8RL_AT(checkpoint.keep_best), boolean,
                      "and the one of best validation accuracy"));
    f.push_back(field("checkpoint.before_time_limit", FP8RL_AT(checkpoint.before_time_limit), duration,
                      "time kept for saving before the time limit"));
    f.push_back(field("checkpoint.time_limit", FP8RL_AT(checkpoint.time_limit), Maybe<Duration>{"none", {}},
                      "wall clock of this process; none: the Slurm job's end, if there is one"));

    f.push_back(field("device.backend", FP8RL_AT(device.backend),
                      Choice<BackendChoice>{{"auto", "cpu", "cuda"}}, "auto: a GPU when there is one"));
    f.push_back(field("device.threads", FP8RL_AT(device.threads), Size{"auto", {1, 1024}},
                      "auto: what the machine offers"));
    f.push_back(field("device.math", FP8RL_AT(device.math), Choice<MathMode>{{"fast", "exact"}},
                      "exact: a GPU takes no shortcut that the CPU does not take"));
}

template <class Member>
Section optional_section(std::string key, std::string absent, Member member, std::string doc) {
    return {std::move(key), std::move(doc), std::move(absent),
            [member](const Recipe& r) { return member(r).has_value(); },
            [member](Recipe& r, bool present) {
                if (!present)
                    member(r).reset();
                else if (!member(r))
                    member(r).emplace();
            }};
}

}  // namespace

const std::vector<Field>& fields() {
    static const std::vector<Field> all = [] {
        std::vector<Field> f;
        f.push_back(field("name", FP8RL_AT(name), filled, "of the run; names its folder"));
        f.push_back(field("note", FP8RL_AT(note), Path{"none", {}}, "free text, for people to read"));
        add_model(f);
        add_rules(f, "precision.", FP8RL_AT(precision.train), false);
        add_rules(f, "precision.rollout.", FP8RL_AT(precision.rollout.value()), true);
        add_task(f);
        add_rollout(f);
        add_algorithm(f);
        add_optimizers(f);
        add_run(f);
        Field seed = field("seed", FP8RL_AT(seed), Integer{0}, "of everything random");
        f.push_back(std::move(seed));
        return f;
    }();
    return all;
}

const std::vector<Section>& sections() {
    static const std::vector<Section> all = {
        {"model", "what is trained: exactly one of path and init", "", {}, {}},
        optional_section("model.init", "none", FP8RL_AT(model.init),
                         "a Llama-family model built from scratch by seed"),
        {"precision", "FP8 rules of training, and of rollout unless it says otherwise", "", {}, {}},
        {"precision.per_tensor", "recipe per_tensor", "", {}, {}},
        {"precision.bf16", "linear layers that stay BF16", "", {}, {}},
        {"precision.kv_cache", "the KV cache", "", {}, {}},
        optional_section("precision.rollout", "same", FP8RL_AT(precision.rollout),
                         "other rules for rollout; same: exact, else the mismatch is measured"),
        {"precision.rollout.per_tensor", "recipe per_tensor", "", {}, {}},
        {"precision.rollout.bf16", "linear layers that stay BF16", "", {}, {}},
        {"precision.rollout.kv_cache", "the KV cache; where silent, as in precision.kv_cache", "", {}, {}},
        {"task", "what is asked and rewarded", "", {}, {}},
        {"task.command", "an external reward program", "", {}, {}},
        {"rollout", "how completions are sampled", "", {}, {}},
        {"algorithm", "the loss", "", {}, {}},
        {"algorithm.kl", "divergence from a frozen reference", "", {}, {}},
        {"algorithm.correction", "for a rollout that is not exact", "", {}, {}},
        {"warmup",
         "supervised steps on the task's own solutions, with an optimizer of their own",
         "",
         {},
         {}},
        {"optimizer", "AdamW on FP32 masters", "", {}, {}},
        {"train", "steps and memory", "", {}, {}},
        {"validation", "accuracy on problems never trained on", "", {}, {}},
        {"checkpoint", "the run folder", "", {}, {}},
        {"device", "where it runs", "", {}, {}},
    };
    return all;
}

std::string section_of(const std::string& key) {
    const size_t dot = key.rfind('.');
    return dot == std::string::npos ? "" : key.substr(0, dot);
}

bool exists(const Recipe& r, const std::string& key) {
    for (const auto& s : sections())
        if (s.present && (key == s.key || key.starts_with(s.key + ".")) && !s.present(r)) return false;
    return true;
}

}  // namespace fp8rl::recipe
