// io/chat_template: renders the Jinja templates with which models say how a conversation becomes text. The
// subset that chat templates use: for, if, set, namespace, expressions, slices, filters, tests, string and
// dict methods; with trim_blocks and lstrip_blocks, as the reference (jinja2's sandbox, as Transformers sets
// it up) renders them. Anything else (macros, includes, unknown filters, tests, methods, functions,
// operators) is refused with its line when the template is read, before a single character is rendered.
// Message text is data: it is never parsed. Work, depth and output are limited, so that a hostile template
// ends in a message.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "io/json.h"

namespace fp8rl {

namespace jinja {
struct Program;
}

class ChatTemplate {
  public:
    // `source` stands in messages before the line number.
    ChatTemplate(std::string_view text, const std::string& source);

    // messages: an array of objects ({"role": ..., "content": ...}). variables: an object with what else the
    // template may read (bos_token, eos_token, ...); `tools` and `documents` are none unless given. An error
    // raised by the template itself (raise_exception) is refused with its own words.
    std::string render(const Json& messages, bool add_generation_prompt, const Json& variables = {}) const;

  private:
    std::shared_ptr<const jinja::Program> program_;
};

}  // namespace fp8rl
