// A BPE vocabulary from any lines: refused, or text that it encodes decodes to the same bytes.
// Line forms, by the first byte: p pre-tokenizer, t token, c control token, u user-defined token, m merge, e
// eos id (by length). Every line is also encoded as text.
#include <string>
#include <vector>

#include "core/text.h"
#include "expect_refusal.h"
#include "io/bpe.h"

using namespace fp8rl;

// GPT-2's 256 byte characters, so that small inputs get past the first tests.
static std::vector<std::string> alphabet() {
    std::vector<std::string> out;
    for (unsigned b = 0, next = 256; b < 256; ++b) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        unsigned c = printable ? b : next++;
        if (c < 0x80)
            out.push_back(std::string(1, static_cast<char>(c)));
        else
            out.push_back({static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 63))});
    }
    return out;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const std::vector<std::string> bytes = alphabet();
    const std::vector<std::string> lines =
        text::split(std::string_view(reinterpret_cast<const char*>(data), size), '\n');
    BpeModel m;
    m.source = "fuzz";
    m.pre = "smollm";
    for (const std::string& b : bytes) {
        m.tokens.push_back(b);
        m.types.push_back(BpeModel::Type::normal);
    }
    for (const std::string& line : lines) {
        if (line.empty()) continue;
        const std::string_view rest = std::string_view(line).substr(1);
        auto token = [&](BpeModel::Type type) {
            m.tokens.push_back(rest);
            m.types.push_back(type);
        };
        switch (line[0]) {
            case 'p': m.pre = rest; break;
            case 't': token(BpeModel::Type::normal); break;
            case 'c': token(BpeModel::Type::control); break;
            case 'u': token(BpeModel::Type::user_defined); break;
            case 'm': m.merges.push_back(rest); break;
            case 'e': m.eos_id = static_cast<int64_t>(rest.size()); break;
        }
    }
    fuzz::expect_refusal([&] {
        BpeTokenizer t(m);
        for (const std::string& line : lines) {
            if (line.empty()) continue;
            for (bool special : {true, false}) {
                std::string back = t.decode(t.encode(line, special));
                // qwen2 composes characters first.
                fuzz::require(m.pre == "qwen2" || back == line, "encode then decode gives the text");
            }
            StreamDecoder stream(t);
            for (int32_t id : t.encode(line, false)) stream.push(id);
            stream.finish();
        }
    });
    return 0;
}
