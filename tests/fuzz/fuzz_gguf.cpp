// GGUF from any bytes: refused, or all metadata and tensors can be read, and the tokenizer in it is refused
// or works.
#include <vector>

#include "expect_refusal.h"
#include "io/gguf.h"
#include "io/tokenizer.h"

using namespace fp8rl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::expect_refusal([&] {
        auto file = GgufFile::from_memory(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
        for (const std::string& key : file.keys()) {
            fuzz::expect_refusal([&] { file.describe(key); });
            fuzz::expect_refusal([&] { file.strings(key); });
            fuzz::expect_refusal([&] { file.numbers(key); });
        }
        for (const GgufTensor& t : file.tensors()) {
            fuzz::expect_refusal([&] { file.dequantize(t.name); });
            std::vector<float> row(static_cast<size_t>(t.cols()));
            fuzz::expect_refusal([&] { file.dequantize_rows(t, t.rows() - 1, 1, row.data()); });
        }
        auto tokenizer = tokenizer_from_gguf(file);
        tokenizer->decode(tokenizer->encode("Hello  world <|im_end|> 12 \xC3\xA9", true));
    });
    return 0;
}
