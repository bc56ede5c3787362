// cpu/thread_scratch: see the header.
#include "cpu/thread_scratch.h"

#include <cstdlib>
#include <memory>

#include "core/error.h"

namespace fp8rl::cpu {

char* thread_scratch() {
    struct Free {
        void operator()(char* p) const { std::free(p); }
    };
    thread_local std::unique_ptr<char, Free> buffer(
        static_cast<char*>(std::aligned_alloc(4096, thread_scratch_bytes)));
    if (!buffer) device_failed("out of memory: ", thread_scratch_bytes, " bytes of scratch for a thread");
    return buffer.get();
}

}  // namespace fp8rl::cpu
