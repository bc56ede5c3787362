#include <algorithm>
#include <cstdio>

#include "core/text.h"
#include "plan/plan.h"

namespace fp8rl {
namespace {

std::string line(const char* format, const std::string& a, const std::string& b) {
    char buffer[512];
    std::snprintf(buffer, sizeof buffer, format, a.c_str(), b.c_str());
    return buffer;
}

std::string row(const char* name, size_t bytes, const char* what) {
    return line("  %-12s %12s", name, text::human_bytes(static_cast<double>(bytes))) + "   " + what + "\n";
}

// Neighbouring layers with the same modules and precision share a line.
std::string precision_lines(const PrecisionTable& table, bool backward) {
    std::string out;
    struct Group {
        int64_t first, last;
        std::string text;
    };
    std::vector<Group> groups;
    const auto& entries = table.entries();
    for (size_t i = 0; i < entries.size();) {
        const int64_t layer = entries[i].module.layer;
        std::string text;
        for (; i < entries.size() && entries[i].module.layer == layer; ++i) {
            const auto& e = entries[i];
            std::string name = e.module.name;
            if (layer >= 0) {
                const std::string prefix = cat("model.layers.", layer, ".");
                if (name.starts_with(prefix)) name = name.substr(prefix.size());
            }
            text += line("    %-22s", name, "");
            text += e.precision.quantized() ? cat("weight ", describe(e.precision.weight), " | activation ",
                                                  describe(e.precision.activation))
                                            : describe(e.precision.weight);
            if (backward && e.precision.quantized())
                text += cat(" | gradient ", describe(e.precision.gradient));
            text += cat("   (", e.reason, ")\n");
        }
        if (!groups.empty() && groups.back().text == text && groups.back().last + 1 == layer)
            groups.back().last = layer;
        else
            groups.push_back({layer, layer, text});
    }
    for (const auto& g : groups)
        out += (g.first == g.last ? cat("  layer ", g.first) : cat("  layers ", g.first, "-", g.last)) +
               "\n" + g.text;
    return out;
}

}  // namespace

std::string verdict_text(const Plan& plan) {
    return plan.exactness.exact
               ? "rollout and training log-probs are exact: equal to the last bit, asserted for every token"
               : plan.exactness.reason;
}

std::string plan_text(const Plan& p) {
    std::string out = "precision\n" + precision_lines(p.options.precision, p.train);
    if (p.options.differs_in_rollout)
        out += "precision in rollout\n" + precision_lines(p.options.rollout_precision, false);
    out += cat("  embedding, head, norms, softmax, residual stream: ", name_of(p.options.act),
               " (logits, statistics and masters f32)\n");
    out += cat("  KV cache: ", name_of(p.options.kv.format),
               p.options.kv.fp8_attention ? ", attention e4m3" : "", "\n");
    out += "exactness\n  " + verdict_text(p) + "\n";
    out += "sequences\n";
    out += cat("  prompt ", p.max_prompt_tokens, " tokens, sequence ", p.max_sequence, ", slots ",
               p.engine.schedule.slots, ", KV pages ", p.pages, " of ", kv_page_tokens, " tokens",
               p.may_preempt ? " (preemption possible)" : "", ", micro-batch ", p.micro_tokens, " tokens\n");
    out += "memory\n";
    out += row("weights", p.weights, "masters, gradients, moments, prepared layouts, scales");
    if (p.reference) out += row("reference", p.reference_weights, "frozen copy for the KL term");
    out += row("phase", p.phase, "rollout and update share it: the larger of");
    out += row("  KV cache", p.kv_cache, "rollout");
    if (p.train) out += row("  saved", p.saved, "update: activations kept for backward");
    out += row("scratch", p.scratch, "op temporaries");
    out += row("workspace", p.workspace, "inside the backend");
    out += row("total", p.total(), "planned");
    out += "work of a step at full length\n";
    out += cat("  rollout  ", text::human_count(p.rollout_flops), "FLOP\n");
    if (p.train) out += cat("  training ", text::human_count(p.training_flops), "FLOP\n");
    out += cat("  forward  ", text::human_count(p.forward_flops_per_token), "FLOP per token\n");
    return out;
}

}  // namespace fp8rl
