// cpu/simd: the choice of path, made once: the best this CPU has, or the one FP8RL_SIMD names. A name that is
// unknown or that the CPU lacks is refused.
#include "cpu/simd.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

#include "core/error.h"
#include "core/text.h"

namespace fp8rl::cpu {
namespace {

constexpr Simd all[] = {Simd::scalar, Simd::avx2, Simd::avx512, Simd::avx512_bf16};

bool has(Simd s) {
#if FP8RL_X86
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    switch (s) {
        case Simd::scalar: return true;
        case Simd::avx2: return avx2;
        case Simd::avx512: return avx512;
        case Simd::avx512_bf16:
            return avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vbmi");
    }
    return false;
#else
    return s == Simd::scalar;
#endif
}

Simd choose() {
    const std::vector<Simd> available = available_simd();
    const char* wanted = std::getenv("FP8RL_SIMD");
    if (!wanted || !*wanted) return available.back();
    std::vector<std::string> names;
    for (Simd s : available) {
        if (std::string(wanted) == name_of(s)) return s;
        names.emplace_back(name_of(s));
    }
    refuse("FP8RL_SIMD=", wanted, ": this CPU runs ", text::join(names, ", "));
}

std::atomic<Simd>& current() {
    static std::atomic<Simd> s{choose()};
    return s;
}

}  // namespace

std::vector<Simd> available_simd() {
    std::vector<Simd> found;
    std::copy_if(std::begin(all), std::end(all), std::back_inserter(found), has);
    return found;
}

const char* name_of(Simd s) {
    switch (s) {
        case Simd::scalar: return "scalar";
        case Simd::avx2: return "avx2";
        case Simd::avx512: return "avx512";
        case Simd::avx512_bf16: return "avx512_bf16";
    }
    return "?";
}

Simd simd() { return current().load(std::memory_order_relaxed); }

void set_simd(Simd s) {
    check(has(s), "set_simd: this CPU lacks ", name_of(s));
    current().store(s);
}

}  // namespace fp8rl::cpu
