// cpu/sample: a row's distribution, its cutoff under top-k and top-p, and one draw by inverting the cumulated
// probabilities in id order. Statistics are those of token_logprob (cpu/vocabulary). NaN or infinite logits
// are a defect.
#include <algorithm>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "cpu/buffer.h"
#include "cpu/head.h"
#include "cpu/vocabulary.h"

namespace fp8rl::cpu {
namespace {

constexpr float none = -std::numeric_limits<float>::infinity();
constexpr int key_bits = 11;  // of the histogram that top-p looks in

// Larger logits have larger keys; -0 counts as 0.
uint32_t key_of(float x) {
    const uint32_t u = bits_of(x + 0.0f);
    return (u >> 31 ? ~u : u | 0x80000000u) >> (32 - key_bits);
}

// One thread's memory.
struct Memory {
    float* weights;        // [V]
    float* pool;           // [V] logits that may matter
    float* maxima;         // [V / 64]
    float* sorted;         // [V / 64]
    SoftmaxBlock* blocks;  // [V / 1024]
    uint32_t counts[1 << key_bits];
    double masses[1 << key_bits];
};

// The logits at or above `least`, in id order, into the pool; returns how many. Pieces below it are skipped.
int64_t collect(const float* x, int64_t v, float least, Memory& memory) {
    int64_t n = 0;
    for (int64_t i = 0; i < v; i += piece) {
        if (memory.maxima[i / piece] < least) continue;
        for (int64_t j = i; j < std::min(v, i + piece); ++j) {
            memory.pool[n] = x[j];
            n += x[j] >= least;
        }
    }
    return n;
}

// The k-th largest of a row's V > k logits. The k-th largest maximum of a piece is no larger, so it bounds
// the search.
float kth_largest(const float* x, int64_t v, int64_t k, Memory& memory) {
    const int64_t pieces = (v + piece - 1) / piece;
    float bound = none;
    if (k <= pieces) {
        std::copy(memory.maxima, memory.maxima + pieces, memory.sorted);
        std::nth_element(memory.sorted, memory.sorted + (k - 1), memory.sorted + pieces,
                         std::greater<float>());
        bound = memory.sorted[k - 1];
    }
    const int64_t n = collect(x, v, bound, memory);
    std::nth_element(memory.pool, memory.pool + (k - 1), memory.pool + n, std::greater<float>());
    return memory.pool[k - 1];
}

// The logit at which the mass of the n logits at or above `cutoff`, largest first, reaches `wanted`. Masses
// are FP64 sums: of each histogram bucket in id order, of buckets and then of logits from the largest down.
// memory.weights are the logits'; x may be the pool.
float crossing(const float* x, int64_t n, double wanted, float inverse_temperature, float cutoff, float base,
               Memory& memory) {
    std::fill(std::begin(memory.masses), std::end(memory.masses), 0.0);
    std::fill(std::begin(memory.counts), std::end(memory.counts), 0u);
    for (int64_t i = 0; i < n; ++i) {
        const uint32_t key = key_of(x[i]);
        memory.masses[key] += memory.weights[i];
        memory.counts[key] += x[i] >= cutoff;
    }
    double mass = 0;
    int bucket = (1 << key_bits) - 1, lowest = bucket;
    for (; bucket >= 0; --bucket) {
        if (memory.counts[bucket] == 0) continue;
        lowest = bucket;
        if (mass + memory.masses[bucket] >= wanted) break;
        mass += memory.masses[bucket];
    }
    // Rounding may leave the whole mass short of what is wanted: then the last bucket decides.
    if (bucket < 0) bucket = lowest, mass -= memory.masses[lowest];
    int64_t in_bucket = 0;
    for (int64_t i = 0; i < n; ++i) {
        const float candidate = x[i];
        if (candidate >= cutoff && key_of(candidate) == static_cast<uint32_t>(bucket))
            memory.pool[in_bucket++] = candidate;
    }
    std::sort(memory.pool, memory.pool + in_bucket, std::greater<float>());
    softmax_weights(memory.weights, memory.pool, in_bucket, inverse_temperature, none, base);
    for (int64_t i = 0; i < in_bucket; ++i) {
        mass += memory.weights[i];
        if (mass >= wanted) return memory.pool[i];
    }
    return memory.pool[in_bucket - 1];
}

// The cutoff of top-p among the logits at or above `cutoff`.
float nucleus_cutoff(const float* x, int64_t v, const SampleParams& p, float inverse_temperature,
                     float cutoff, float base, Memory& memory) {
    softmax_weights(memory.weights, x, v, inverse_temperature, cutoff, base);
    const double wanted = static_cast<double>(p.top_p) * mass_of(memory.weights, v);
    const DepthMasses near = masses_by_depth(memory.weights, v);
    for (int d = 0; d < 4; ++d) {
        // Where a few of the largest logits hold enough (with room for FP32 sums), only they are looked at.
        if (near.mass[d] < wanted * 1.001 || near.count[d] > v / 8) continue;
        const float least = std::max(cutoff, (base - mass_depths[d] - 0.01f) * p.temperature);
        const int64_t n = collect(x, v, least, memory);
        softmax_weights(memory.weights, memory.pool, n, inverse_temperature, none, base);
        return crossing(memory.pool, n, wanted, inverse_temperature, none, base, memory);
    }
    return crossing(x, v, wanted, inverse_temperature, cutoff, base, memory);
}

// Walks the blocks' masses in order, then the ids of the block in which the sum passes u times the total.
int64_t draw(const float* x, int64_t v, float uniform, float inverse_temperature, float cutoff,
             const SoftmaxState& state, const Memory& memory) {
    const int64_t blocks = (v + vocabulary_block - 1) / vocabulary_block;
    const auto factor = [&](int64_t b) { return exp_f32(memory.blocks[b].m - state.m); };
    const auto mass = [&](int64_t b) {
        return memory.blocks[b].z == 0 ? 0.0f : memory.blocks[b].z * factor(b);
    };
    float total = 0;
    for (int64_t b = 0; b < blocks; ++b) total += mass(b);
    const float wanted = uniform * total;
    float before = 0;
    int64_t chosen = -1;
    for (int64_t b = 0; b < blocks; ++b) {
        const float m = mass(b);
        if (m == 0) continue;
        if (chosen >= 0) before += mass(chosen);
        chosen = b;
        if (before + m > wanted) break;
    }
    const int64_t first = chosen * vocabulary_block, n = std::min(vocabulary_block, v - first);
    softmax_weights(memory.weights, x + first, n, inverse_temperature, cutoff, memory.blocks[chosen].m);
    const float scale = factor(chosen), left = wanted - before;
    float sum = 0;
    int64_t last = 0;
    for (int64_t i = 0; i < n; ++i) {
        if (memory.weights[i] == 0) continue;
        last = i;
        sum += memory.weights[i];
        if (sum * scale > left) break;
    }
    return first + last;
}

Sampled sample_row(const float* x, int64_t v, const SampleParams& p, Memory& memory, int64_t row) {
    const bool greedy = p.temperature == 0;
    const float inverse = greedy ? 1.0f : 1.0f / p.temperature;
    SoftmaxState state;
    add_logits(state, x, v, inverse, none, memory.blocks);
    check(!is_nan(state.z) && state.z > 0, "sample: row ", row, " has NaN or infinite logits");
    Sampled s;
    s.cutoff = none;
    if (greedy) {
        s.id = static_cast<int32_t>(std::find(x, x + v, state.m) - x);
    } else {
        const bool top_k = p.top_k > 0 && p.top_k < v, top_p = p.top_p < 1;
        if (top_k || top_p) piece_maxima(memory.maxima, x, v);
        if (top_k) s.cutoff = kth_largest(x, v, p.top_k, memory);
        if (top_p) s.cutoff = nucleus_cutoff(x, v, p, inverse, s.cutoff, state.m, memory);
        if (s.cutoff != none) {
            state = {};
            add_logits(state, x, v, inverse, s.cutoff, memory.blocks);
        }
        s.id = static_cast<int32_t>(draw(x, v, p.uniform, inverse, s.cutoff, state, memory));
    }
    s.logp = state.log_probability(x[s.id] * inverse);
    s.entropy = state.entropy();
    return s;
}

}  // namespace

void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params) {
    const int64_t rows = logits.rows(), v = logits.cols();
    check(static_cast<int64_t>(out.size()) == rows && params.size() == out.size(), "sample: logits ",
          shape_text(logits), ", ", out.size(), " results, ", params.size(), " parameters");
    for (const SampleParams& p : params)
        check(p.temperature >= 0 && p.top_k >= 0 && p.top_p >= 0 && p.uniform >= 0 && p.uniform < 1,
              "sample: temperature ", p.temperature, ", top_k ", p.top_k, ", top_p ", p.top_p, ", uniform ",
              p.uniform);
    static Buffer buffer;
    const auto rounded = [](size_t bytes) { return (bytes + 63) / 64 * 64; };
    const size_t row = rounded(static_cast<size_t>(v) * sizeof(float));
    const size_t pieces = rounded(static_cast<size_t>(v / piece + 1) * sizeof(float));
    const size_t blocks = rounded(static_cast<size_t>(v / vocabulary_block + 1) * sizeof(SoftmaxBlock));
    const size_t one = rounded(sizeof(Memory)) + 2 * row + 2 * pieces + blocks;
    char* memory = buffer.array<char>(one * static_cast<size_t>(parallel::threads()));
    parallel::for_each(rows, [&](int64_t i, int worker) {
        char* base = memory + one * static_cast<size_t>(worker);
        Memory& m = *reinterpret_cast<Memory*>(base);
        base += rounded(sizeof(Memory));
        m.weights = reinterpret_cast<float*>(base);
        m.pool = reinterpret_cast<float*>(base + row);
        m.maxima = reinterpret_cast<float*>(base + 2 * row);
        m.sorted = reinterpret_cast<float*>(base + 2 * row + pieces);
        m.blocks = reinterpret_cast<SoftmaxBlock*>(base + 2 * row + 2 * pieces);
        out[static_cast<size_t>(i)] =
            sample_row(logits.as<float>() + i * v, v, params[static_cast<size_t>(i)], m, i);
    });
}

}  // namespace fp8rl::cpu
