#include "e2e/lab.h"

#include <algorithm>
#include <filesystem>

namespace fp8rl::test {

namespace fs = std::filesystem;

const char* const lab_recipe = R"(name: lab
model: {init: {vocab_size: 264, hidden: 32, layers: 2, heads: 2, kv_heads: 1, ffn: 64, max_position: 32}}
precision: {recipe: blockwise, kv_cache: {format: fp8, max_saturated: 0}}
task: {name: sort, length: 2, validation_size: 8}
rollout: {prompts: 8, samples: 12, max_new_tokens: 4}
algorithm: {name: grpo}
warmup: {steps: 100, batch: 16, lr: 2e-2, warmup_steps: 2}
optimizer: {lr: 1e-3, warmup_steps: 0}
train: {steps: 6, micro_tokens: 256}
validation: {at_start: true, every: 3}
checkpoint: {dir: "runs/{name}", every: 0}
device: {threads: 1}
)";

Lab::Lab() : recipe_(scratch_.write("lab.yaml", lab_recipe)) {}

Strings Lab::arguments(const std::string& run, const Strings& sets, const Strings& flags) const {
    Strings a = {"train", recipe_, "--set", "checkpoint.dir=" + folder(run)};
    for (const auto& s : sets) a.push_back("--set"), a.push_back(s);
    a.insert(a.end(), flags.begin(), flags.end());
    return a;
}

Result Lab::train(const std::string& run, const Strings& sets, const Strings& flags,
                  const Options& options) const {
    return test::run(arguments(run, sets, flags), options);
}

Result Lab::trained(const std::string& run, const Strings& sets, const Strings& flags,
                    const Options& options) const {
    Result r = train(run, sets, flags, options);
    INFO(run << ": " << r.err);
    REQUIRE(r.code == 0);
    return r;
}

std::string Lab::file(const std::string& run, const std::string& name) const {
    return read_text(folder(run) + "/" + name);
}

bool Lab::has(const std::string& run, const std::string& name) const {
    return fs::exists(folder(run) + "/" + name);
}

nlohmann::json Lab::summary(const std::string& run) const {
    return nlohmann::json::parse(file(run, "summary.json"));
}

std::vector<Line> Lab::metrics(const std::string& run) const {
    return json_lines(file(run, "metrics.jsonl"));
}

std::string Lab::weights(const std::string& run) const {
    std::string step = file(run, "checkpoints/latest");
    step.erase(step.find_last_not_of("\n") + 1);
    return file(run, "checkpoints/" + step + "/weights.safetensors");
}

Strings Lab::listing(const std::string& run) const {
    Strings all;
    for (const auto& entry : fs::recursive_directory_iterator(folder(run)))
        all.push_back(entry.path().string() +
                      (entry.is_regular_file() ? "\n" + read_text(entry.path().string()) : ""));
    std::sort(all.begin(), all.end());
    return all;
}

std::vector<Line> json_lines(const std::string& text) {
    std::vector<Line> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(Line::parse(line));
    return lines;
}

Strings without(const std::vector<Line>& lines, const Strings& prefixes) {
    Strings out;
    for (const auto& line : lines) {
        Line kept = Line::object();
        for (const auto& [key, value] : line.items())
            if (std::none_of(prefixes.begin(), prefixes.end(),
                             [&](const auto& p) { return key.rfind(p, 0) == 0; }))
                kept[key] = value;
        out.push_back(kept.dump());
    }
    return out;
}

std::vector<Line> only(const std::vector<Line>& lines, const std::string& phase) {
    std::vector<Line> out;
    for (const auto& l : lines)
        if (l.at("phase") == phase) out.push_back(l);
    return out;
}

std::vector<double> column(const std::vector<Line>& lines, const std::string& key) {
    std::vector<double> out;
    for (const auto& l : lines)
        if (l.contains(key)) out.push_back(l.at(key).get<double>());
    return out;
}

double sum(const std::vector<double>& values) {
    double s = 0;
    for (double v : values) s += v;
    return s;
}

}  // namespace fp8rl::test
