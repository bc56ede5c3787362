#include "rl/prompt.h"

#include "core/error.h"

#include "io/chat_template.h"

namespace fp8rl::rl {

PromptEncoder::PromptEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {
    if (!tokenizer.chat_template().empty())
        template_ = std::make_unique<ChatTemplate>(tokenizer.chat_template(), "chat template");
}
PromptEncoder::~PromptEncoder() = default;

std::string PromptEncoder::render(const std::vector<Message>& messages) const {
    if (!template_)
        refuse("task.format: chat needs a model with a chat template; this one has none, use plain");
    Json list = Json::array();
    for (const auto& m : messages) {
        Json item = Json::object();
        item.set("role", m.role);
        item.set("content", m.content);
        list.push(std::move(item));
    }
    Json variables = Json::object();
    auto name = [&](int32_t id) { return id < 0 ? std::string() : std::string(tokenizer_.bytes_of(id)); };
    variables.set("bos_token", name(tokenizer_.bos_id()));
    variables.set("eos_token", name(tokenizer_.eos_id()));
    return template_->render(list, true, variables);
}

std::vector<int32_t> PromptEncoder::encode_chat(const std::vector<Message>& messages) const {
    return tokenizer_.encode(render(messages), true);
}

std::vector<int32_t> PromptEncoder::encode_plain(const std::string& text) const {
    std::vector<int32_t> ids = tokenizer_.encode(text, false);
    if (tokenizer_.add_bos() && tokenizer_.bos_id() >= 0) ids.insert(ids.begin(), tokenizer_.bos_id());
    if (ids.empty()) refuse("an empty prompt has no token to continue");
    return ids;
}

std::string PromptEncoder::text(const Problem& p) const {
    return p.messages.empty() ? p.prompt : render(p.messages);
}

std::vector<int32_t> PromptEncoder::prompt(const Problem& p) const {
    return p.messages.empty() ? encode_plain(p.prompt) : encode_chat(p.messages);
}

std::vector<int32_t> PromptEncoder::solution(const Problem& p) const {
    if (p.solution.empty()) refuse(p.id, ": this task has no solutions to learn from; set warmup.steps: 0");
    std::vector<int32_t> ids = tokenizer_.encode(p.solution, false);
    if (tokenizer_.eos_id() >= 0) ids.push_back(tokenizer_.eos_id());
    return ids;
}

}  // namespace fp8rl::rl
