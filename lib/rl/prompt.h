// rl/prompt: a problem as token ids. Chats go through the model's template with the generation prompt; raw
// prompts are encoded as they are, after bos where the tokenizer wants one. Refuses a chat for a model
// without a template, and an empty prompt.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/tokenizer.h"
#include "rl/task.h"

namespace fp8rl {
class ChatTemplate;
}

namespace fp8rl::rl {

class PromptEncoder {
  public:
    explicit PromptEncoder(const Tokenizer& tokenizer);
    ~PromptEncoder();

    bool has_template() const { return template_ != nullptr; }
    std::string text(const Problem& problem) const;  // what the model reads, as text
    std::vector<int32_t> prompt(const Problem& problem) const;
    // The task's own solution and end-of-sequence, for supervised steps. Refused when the task has none.
    std::vector<int32_t> solution(const Problem& problem) const;
    std::string render(const std::vector<Message>& messages) const;
    std::vector<int32_t> encode_chat(const std::vector<Message>& messages) const;
    std::vector<int32_t> encode_plain(const std::string& text) const;

    const Tokenizer& tokenizer() const { return tokenizer_; }

  private:
    const Tokenizer& tokenizer_;
    std::unique_ptr<ChatTemplate> template_;
};

}  // namespace fp8rl::rl
