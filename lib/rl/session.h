// rl/session: what every command needs before it can do its job: the model's source, tokenizer, task, plan,
// memory and the model itself, made in the order in which each can still refuse without cost. Nothing is
// allocated before the plan agrees.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "io/tokenizer.h"
#include "nn/model.h"
#include "plan/plan.h"
#include "recipe/recipe.h"
#include "rl/prompt.h"
#include "rl/task.h"
#include "rollout/engine.h"

namespace fp8rl {
class GgufFile;
}

namespace fp8rl::rl {

// A model file, or the recipe's `init`, opened but not loaded.
struct ModelSource {
    ModelSpec spec;
    std::unique_ptr<Tokenizer> tokenizer;
    std::unique_ptr<GgufFile> gguf;  // null: from scratch
    std::string text;                // for the log
    explicit ModelSource(const ModelConfig& config);
    ~ModelSource();
    ModelSource(ModelSource&&) noexcept;
};

class Session {
  public:
    enum class Purpose { train, evaluate, generate };
    // Plans at once; load() allocates. generate: no task, prompts of up to `longest_prompt` tokens.
    Session(const Recipe& recipe, Backend& backend, Purpose purpose, int64_t longest_prompt = 0);
    ~Session();

    // Allocates the arenas, builds the model and fills it from the source.
    void load();

    const Recipe& recipe() const { return recipe_; }
    const Plan& plan() const { return plan_; }
    const ModelSource& source() const { return source_; }
    const PromptEncoder& encoder() const { return encoder_; }
    Task& task() { return *task_; }
    Backend& backend() { return backend_; }
    Model& model() { return *model_; }
    Model* reference() { return reference_.get(); }
    Arena& phase() { return *phase_; }
    Arena& scratch() { return *scratch_; }
    const Arena& weights() const { return *weights_; }
    int64_t validation_problems() const;
    // Settings of the recipe with the tokenizer's stop ids and decoder.
    SamplingConfig rollout_sampling() const;
    SamplingConfig validation_sampling() const;

    // An engine over a fresh KV cache in the phase arena; what backward kept there is gone.
    class Rollout {
      public:
        explicit Rollout(Session& s);
        Engine& engine() { return engine_; }

      private:
        Arena::Scope phase_scope_;
        KvCache cache_;
        Engine engine_;
    };

  private:
    void complete(SamplingConfig& s) const;
    int64_t longest_prompt() const;

    Recipe recipe_;
    Backend& backend_;
    ModelSource source_;
    PromptEncoder encoder_;
    std::unique_ptr<Task> task_;
    Plan plan_;
    struct Block;  // memory of the backend
    std::vector<std::unique_ptr<Block>> blocks_;
    std::unique_ptr<Arena> weights_, reference_weights_, phase_, scratch_;
    std::unique_ptr<Model> model_, reference_;
};

}  // namespace fp8rl::rl
