// Chat templates from any bytes: refused when read, refused while rendering, or rendered.
#include "expect_refusal.h"
#include "io/chat_template.h"

using namespace fp8rl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const Json messages = Json::parse(
        R"([{"role": "system", "content": " S\n"}, {"role": "user", "content": "{{ 1 }} \u00e9\u0645"},
            {"role": "assistant", "content": "4", "n": 2.5, "list": [1, null, {"a": true}]}])",
        "messages");
    static const Json variables = Json::object().set("bos_token", "<s>").set("eos_token", "</s>");
    fuzz::expect_refusal([&] {
        ChatTemplate t(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
        t.render(messages, true, variables);
    });
    return 0;
}
