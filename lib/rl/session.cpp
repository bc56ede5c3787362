#include "rl/session.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "core/text.h"
#include "io/gguf.h"
#include "rl/settings.h"

namespace fp8rl::rl {

ModelSource::ModelSource(const ModelConfig& config) {
    if (config.path) {
        if (std::filesystem::is_directory(*config.path))
            refuse(*config.path, ": Hugging Face folders are not read yet; give a GGUF file");
        gguf = std::make_unique<GgufFile>(*config.path);
        spec = spec_from_gguf(*gguf);
        tokenizer = tokenizer_from_gguf(*gguf);
        text = cat(*config.path, ", ", spec.parameters(), " parameters");
        return;
    }
    const ModelInit init = config.init.value_or(ModelInit{});
    spec.vocab = init.vocab_size;
    spec.hidden = init.hidden;
    spec.layers = init.layers;
    spec.heads = init.heads;
    spec.kv_heads = init.kv_heads;
    spec.head_dim = init.head_dim.value_or(init.hidden / std::max<int64_t>(1, init.heads));
    spec.ffn = init.ffn;
    spec.rms_eps = init.rms_eps;
    spec.rope.theta = init.rope_theta;
    spec.tied = init.tied;
    spec.qk_norm = init.qk_norm;
    spec.attention_bias = init.attention_bias;
    spec.max_position = init.max_position;
    spec.validate();
    tokenizer = byte_tokenizer();
    if (tokenizer->vocab_size() > spec.vocab)
        refuse("model.init.vocab_size: ", spec.vocab, " is less than the ", tokenizer->vocab_size(),
               " of the byte-level tokenizer");
    text = cat("from scratch, ", spec.parameters(), " parameters");
}
ModelSource::~ModelSource() = default;
ModelSource::ModelSource(ModelSource&&) noexcept = default;

struct Session::Block {
    Block(Backend& b, size_t bytes)
        : backend(b), data(b.allocate(std::max<size_t>(bytes, Arena::alignment))) {}
    ~Block() { backend.release(data); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    Backend& backend;
    void* data;
};

// The very update that training runs, on a model without maths. `lengths` are rows fed: a sequence has one
// token more.
static void count_update(const Recipe& recipe, Model& model, Model* reference, Arena& phase, Arena& scratch,
                         std::span<const int64_t> lengths) {
    const bool sampled = recipe.algorithm.name == AlgorithmName::grpo;
    std::vector<Sample> samples;
    for (int64_t rows : lengths) {
        Sample s;
        s.id = "a planned sequence";
        s.tokens.assign(static_cast<size_t>(rows) + 1, 0);
        // Completions as long as they can be: every one of their rows meets the head.
        s.prompt_tokens =
            static_cast<int32_t>(std::max<int64_t>(1, rows + 1 - recipe.rollout.max_new_tokens));
        auto completion = static_cast<size_t>(s.completion_tokens());
        if (sampled) s.rollout_logp.assign(completion, 0), s.old_logp.assign(completion, 0);
        if (recipe.rollout.top_p < 1 || recipe.rollout.top_k > 0) s.cutoff.assign(completion, 0);
        s.advantage = 1;
        samples.push_back(std::move(s));
    }
    UpdateSettings settings = update_settings(recipe, !sampled, true);
    settings.micro_tokens = std::numeric_limits<int64_t>::max();
    Updater updater(model, reference, phase, scratch);
    updater.accumulate(samples, settings, 0, false);
    if (!sampled) return;
    // Samples without a gradient keep nothing for backward: their forward needs scratch instead.
    for (auto& s : samples) s.advantage = 0;
    updater.accumulate(samples, settings, 0, true);
}

Session::Session(const Recipe& recipe, Backend& backend, Purpose purpose, int64_t longest)
    : recipe_(recipe), backend_(backend), source_(recipe.model), encoder_(*source_.tokenizer) {
    if (purpose != Purpose::generate) {
        const PromptFormat format = recipe.task.format;
        const bool chat =
            format == PromptFormat::chat || (format == PromptFormat::automatic && encoder_.has_template());
        task_ = make_task(task_options(recipe, chat));
        longest = longest_prompt();
    }
    // What the engine would refuse later is refused before anything is written or allocated.
    validate(rollout_sampling());
    if (purpose != Purpose::generate) validate(validation_sampling());
    plan_ = make_plan(
        recipe_, source_.spec, longest, backend_, purpose == Purpose::train,
        [&](Model& model, Model* reference, Arena& phase, Arena& scratch, std::span<const int64_t> lengths) {
            count_update(recipe_, model, reference, phase, scratch, lengths);
        });
}
Session::~Session() = default;

int64_t Session::validation_problems() const {
    return std::min(recipe_.validation.size.value_or(task_->validation_size()), task_->validation_size());
}

int64_t Session::longest_prompt() const {
    const int64_t room = source_.spec.max_position - recipe_.rollout.max_new_tokens;
    if (room < 1)
        refuse("rollout.max_new_tokens: ", recipe_.rollout.max_new_tokens,
               " leaves no room for a prompt in the model's ", source_.spec.max_position, " positions");
    if (recipe_.task.max_prompt_tokens) return std::min(*recipe_.task.max_prompt_tokens, room);
    // Generated problems are unbounded: the longest of many, with a margin for those not looked at; a longer
    // prompt is left out and counted.
    constexpr uint64_t looked_at = 1000;
    size_t longest = 1;
    for (int64_t i = 0; i < validation_problems(); ++i)
        longest = std::max(longest, encoder_.prompt(task_->validation(i)).size());
    for (uint64_t i = 0; i < looked_at; ++i)
        longest = std::max(longest, encoder_.prompt(task_->train(i)).size());
    return std::min(static_cast<int64_t>(longest + longest / 8), room);
}

void Session::load() {
    const size_t available = backend_.memory_bytes();
    if (plan_.total() > available)
        refuse("the plan needs ", text::human_bytes(static_cast<double>(plan_.total())), ", this device has ",
               text::human_bytes(static_cast<double>(available)),
               "; smaller: train.micro_tokens, rollout.kv_memory, optimizer.moments: bf16, train.recompute: "
               "block");
    auto arena = [&](const char* name, size_t bytes) {
        blocks_.push_back(std::make_unique<Block>(backend_, bytes));
        return std::make_unique<Arena>(name, blocks_.back()->data, bytes);
    };
    weights_ = arena("weights", plan_.weights);
    phase_ = arena("phase", plan_.phase);
    scratch_ = arena("scratch", plan_.scratch);
    auto fill = [&](Model& m, Arena& a) {
        m.reserve(a);
        if (source_.gguf)
            m.load(*source_.gguf);
        else
            m.initialize(recipe_.seed, recipe_.model.init.value_or(ModelInit{}).init_std);
        m.prepare();
    };
    model_ = std::make_unique<Model>(backend_, plan_.spec, plan_.options);
    fill(*model_, *weights_);
    if (plan_.reference) {
        reference_weights_ = arena("reference", plan_.reference_weights);
        ModelOptions frozen = plan_.options;
        frozen.train = false;
        reference_ = std::make_unique<Model>(backend_, plan_.spec, frozen);
        fill(*reference_, *reference_weights_);
    }
}

void Session::complete(SamplingConfig& s) const {
    s.stop_ids = source_.tokenizer->stop_ids();
    for (int64_t id : recipe_.rollout.stop_ids) {
        if (id >= source_.spec.vocab)
            refuse("rollout.stop_ids: ", id, " is outside the vocabulary of ", source_.spec.vocab);
        s.stop_ids.push_back(static_cast<int32_t>(id));
    }
    s.decode = [tokenizer = source_.tokenizer.get()](int32_t id) { return tokenizer->bytes_of(id); };
}
SamplingConfig Session::rollout_sampling() const {
    SamplingConfig s = rl::rollout_sampling(recipe_);
    complete(s);
    return s;
}
SamplingConfig Session::validation_sampling() const {
    SamplingConfig s = rl::validation_sampling(recipe_);
    complete(s);
    return s;
}

Session::Rollout::Rollout(Session& s)
    : phase_scope_(s.phase()),
      cache_(s.backend(), s.plan().spec, s.model().kv_scales(), s.plan().pages),
      engine_((cache_.reserve(s.phase()), s.model()), cache_, s.scratch(), s.plan().engine) {}

}  // namespace fp8rl::rl
