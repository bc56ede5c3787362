// safetensors from any bytes: refused, or every tensor can be read.
#include "expect_refusal.h"
#include "io/safetensors.h"

using namespace fp8rl;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    fuzz::expect_refusal([&] {
        auto file =
            SafetensorsFile::from_memory(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
        uint64_t bytes = 0;
        unsigned sum = 0;
        for (const SafeTensor& t : file.tensors()) {
            for (uint8_t b : file.bytes(t)) sum += b;
            bytes += t.bytes;
            fuzz::expect_refusal([&] { file.floats(t); });
            fuzz::require(file.find(t.name) == &t, "a tensor is found by its name");
        }
        fuzz::require(bytes <= size && sum <= 255 * bytes, "tensors lie inside the file");
    });
    return 0;
}
