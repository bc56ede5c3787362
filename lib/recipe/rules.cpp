// recipe/rules: see the header.
#include "recipe/rules.h"

#include "core/error.h"

namespace fp8rl::recipe {

namespace {

struct Judge {
    template <class... Parts>
    void require(bool holds, std::vector<std::string> keys, const Parts&... message) {
        if (!holds) found.push_back({std::move(keys), cat(message...)});
    }
    std::vector<Contradiction> found;
};

void judge_model(const Recipe& r, Judge& j) {
    const auto& m = r.model;
    j.require(m.path || m.init, {"model"},
              "a model is needed: path (a GGUF file or a Hugging Face folder) or init");
    j.require(!(m.path && m.init), {"model.path", "model.init"}, "path and init exclude each other");
    if (!m.init) return;
    const ModelInit& i = *m.init;
    j.require(i.heads % i.kv_heads == 0, {"model.init.kv_heads", "model.init.heads"}, i.kv_heads,
              " does not divide heads, which is ", i.heads);
    if (i.head_dim)
        j.require(*i.head_dim % 2 == 0, {"model.init.head_dim"},
                  "must be even: rotary embedding turns pairs");
    else
        j.require(i.hidden % i.heads == 0 && i.hidden / i.heads % 2 == 0,
                  {"model.init.hidden", "model.init.heads"}, "hidden ", i.hidden, " over ", i.heads,
                  " heads gives no even head_dim; give head_dim");
    j.require(i.tokenizer == "bytes", {"model.init.tokenizer"}, "only bytes is known; found '", i.tokenizer,
              "'");
    j.require(r.rollout.max_new_tokens < i.max_position,
              {"rollout.max_new_tokens", "model.init.max_position"},
              "leaves no room for a prompt within max_position ", i.max_position);
}

void judge_rules(const PrecisionRules& p, const std::string& prefix, Judge& j) {
    const bool scaled = p.recipe == PrecisionMode::per_tensor || p.recipe == PrecisionMode::blockwise;
    j.require(!p.pow2_scales || scaled, {prefix + "pow2_scales", prefix + "recipe"},
              "needs FP32 scales: recipe per_tensor or blockwise");
    j.require(p.scale_rule == ScaleRule::te || scaled, {prefix + "scale_rule", prefix + "recipe"},
              "vllm needs FP32 scales: recipe per_tensor or blockwise");
    j.require(p.attention == CacheFormat::bf16 || p.kv_cache.format == CacheFormat::fp8,
              {prefix + "attention", prefix + "kv_cache.format"}, "fp8 needs kv_cache: {format: fp8}");
    j.require(p.recipe != PrecisionMode::fp32 || p.kv_cache.format == CacheFormat::bf16,
              {prefix + "kv_cache.format", prefix + "recipe"},
              "recipe fp32 rounds nothing, so its cache is not fp8");
}

void judge_task(const Recipe& r, Judge& j) {
    const TaskConfig& t = r.task;
    const bool generated = t.name == TaskName::sort || t.name == TaskName::arithmetic;
    j.require(generated || t.train, {"task.train", "task.name"}, "this task reads files: a path is needed");
    j.require(!generated || !t.train, {"task.train", "task.name"}, "this task generates its problems");
    j.require(!generated || !t.validation, {"task.validation", "task.name"},
              "this task generates its problems");
    const bool command = t.name == TaskName::command;
    j.require(command == !t.command.argv.empty(), {"task.command.argv", "task.name"},
              command ? "task command needs a program" : "belongs to task command");
    j.require(t.command.argv.empty() || !t.command.argv[0].empty(), {"task.command.argv"},
              "the program's name is empty");
    j.require(t.prompt.find("{question}") != std::string::npos, {"task.prompt"},
              "{question} is missing in it");
    j.require(!t.word_problems || t.name == TaskName::arithmetic, {"task.word_problems", "task.name"},
              "belongs to task arithmetic");
}

void judge_run(const Recipe& r, Judge& j) {
    j.require(r.name.find_first_of("/\\{}\n\r\t") == std::string::npos && r.name != "." && r.name != "..",
              {"name"}, "names a folder: no / \\ { } and no line breaks");
    const auto& a = r.algorithm;
    j.require(!a.constant || a.aggregate == Aggregate::constant_length,
              {"algorithm.constant", "algorithm.aggregate"}, "belongs to aggregate constant_length");
    j.require(!a.refill_equal_groups || r.rollout.samples > 1,
              {"algorithm.refill_equal_groups", "rollout.samples"},
              "a group of one sample is always equal; nothing would be left");
    const auto& v = r.validation;
    j.require(!v.size || r.task.validation_size == 0 || *v.size <= r.task.validation_size,
              {"validation.size", "task.validation_size"}, "more than task.validation_size, which is ",
              r.task.validation_size);
    j.require(v.samples == 1 || v.temperature > 0, {"validation.samples", "validation.temperature"},
              "greedy completions of a problem are all equal; set validation.temperature");
    const auto& c = r.checkpoint;
    j.require(!c.time_limit || c.before_time_limit < *c.time_limit,
              {"checkpoint.time_limit", "checkpoint.before_time_limit"},
              "before_time_limit leaves nothing of it to train in");
    for (const auto& [key, text] : {std::pair<std::string, std::string>{"checkpoint.dir", c.dir},
                                    {"model.path", r.model.path.value_or("")},
                                    {"task.train", r.task.train.value_or("")},
                                    {"task.validation", r.task.validation.value_or("")}})
        j.require(text.find_first_of("{}") == std::string::npos, {key}, "only {name} is expanded in a path");
}

}  // namespace

std::vector<Contradiction> contradictions(const Recipe& r) {
    Judge j;
    judge_model(r, j);
    judge_rules(r.precision.train, "precision.", j);
    if (r.precision.rollout) judge_rules(*r.precision.rollout, "precision.rollout.", j);
    judge_task(r, j);
    judge_run(r, j);
    return std::move(j.found);
}

}  // namespace fp8rl::recipe
