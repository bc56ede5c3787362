// Shared by the tests of the CPU's ops: tensors with random contents, readings as double, and the check that
// every SIMD path and number of threads gives the bytes of the scalar path on one thread.
#pragma once
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <vector>

#include "core/parallel.h"
#include "core/rng.h"
#include "cpu/cpu_backend.h"
#include "quant/formats.h"
#include "test.h"

namespace fp8rl::test {

// Owns the memory of a test's tensors.
class Tensors {
  public:
    explicit Tensors(uint64_t seed = 1) : random_(seed, Stream::test) {}
    Tensor zeros(DType type, std::initializer_list<int64_t> dims) {
        Tensor t(nullptr, type, dims);
        memory_.emplace_back(t.bytes() / 8 + 1);
        t.data = memory_.back().data();
        return t;
    }
    Tensor normal(DType type, std::initializer_list<int64_t> dims, float scale = 1) {
        Tensor t = zeros(type, dims);
        for (int64_t i = 0; i < t.size(); ++i) put(t, i, random_.normal() * scale);
        return t;
    }
    Random& random() { return random_; }
    static void put(Tensor t, int64_t i, float x) {
        if (t.dtype == DType::bf16)
            t.as<bf16>()[i] = to_bf16(x);
        else
            t.as<float>()[i] = x;
    }
    Tensor copy(const Tensor& t) {
        Tensor c = t;
        memory_.emplace_back(t.bytes() / 8 + 1);
        c.data = memory_.back().data();
        if (t.bytes()) std::memcpy(c.data, t.data, t.bytes());
        return c;
    }

  private:
    std::deque<std::vector<uint64_t>> memory_;
    Random random_;
};

inline double at(const Tensor& t, int64_t i) {
    return t.dtype == DType::bf16 ? to_float(t.as<bf16>()[i]) : t.as<float>()[i];
}
inline std::vector<double> values(const Tensor& t) {
    std::vector<double> v(static_cast<size_t>(t.size()));
    for (int64_t i = 0; i < t.size(); ++i) v[static_cast<size_t>(i)] = at(t, i);
    return v;
}

using Bytes = std::vector<uint8_t>;
inline void append(Bytes& b, const void* p, size_t n) {
    if (n == 0) return;
    const size_t before = b.size();
    b.resize(before + n);
    std::memcpy(b.data() + before, p, n);
}
inline void append(Bytes& b, const Tensor& t) { append(b, t.data, t.bytes()); }

// Restores path and threads.
struct Restore {
    cpu::Simd simd = cpu::simd();
    int threads = parallel::threads();
    ~Restore() {
        cpu::set_simd(simd);
        parallel::set_threads(threads);
    }
};

// `run` computes anew and returns what it wrote.
inline void same_everywhere(const std::function<Bytes()>& run) {
    const Restore restore;
    cpu::set_simd(cpu::Simd::scalar);
    parallel::set_threads(1);
    const Bytes expected = run();
    for (int threads : {1, 2, 3}) {
        parallel::set_threads(threads);
        for (cpu::Simd s : cpu::available_simd()) {
            if (s == cpu::Simd::scalar && threads != 2) continue;  // slow; one of them beside the reference
            cpu::set_simd(s);
            const Bytes got = run();
            INFO(cpu::name_of(s) << " on " << threads << " threads");
            REQUIRE(got.size() == expected.size());
            size_t differing = 0, first = 0;
            for (size_t i = 0; i < got.size(); ++i)
                if (got[i] != expected[i] && differing++ == 0) first = i;
            INFO("first differing byte " << first << " of " << got.size());
            REQUIRE(differing == 0);
        }
    }
}

// Runs body on the scalar path, whose values are the definition.
inline void on_scalar(const std::function<void()>& body) {
    const Restore restore;
    cpu::set_simd(cpu::Simd::scalar);
    body();
}

// One rounding to `type` is allowed, and a few float roundings.
inline void require_near(const Tensor& got, const std::vector<double>& expected, double float_error = 2e-6) {
    REQUIRE(static_cast<size_t>(got.size()) == expected.size());
    const double rounding = got.dtype == DType::bf16 ? 1.0 / 256 : 0;
    double largest = 0;
    for (double x : expected) largest = std::max(largest, std::fabs(x));
    for (int64_t i = 0; i < got.size(); ++i) {
        const double e = expected[static_cast<size_t>(i)];
        INFO("element " << i << ": " << at(got, i) << ", expected " << e);
        REQUIRE(std::fabs(at(got, i) - e) <= rounding * std::fabs(e) + float_error * std::max(1.0, largest));
    }
}

}  // namespace fp8rl::test
