// A whole training run in this process, on a model small enough for a test.
#pragma once
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "cpu/cpu_backend.h"
#include "recipe/load.h"
#include "rl/trainer.h"
#include "test.h"

namespace fp8rl::test {

inline const char* const tiny_recipe = R"(name: tiny
model: {init: {vocab_size: 264, hidden: 32, layers: 2, heads: 4, kv_heads: 2, ffn: 64, max_position: 64}}
precision: {recipe: blockwise, kv_cache: {format: fp8}}
task: {name: sort, length: 3, validation_size: 8}
rollout: {prompts: 4, samples: 4, max_new_tokens: 5, log_completions: 1}
algorithm: {name: grpo}
warmup: {steps: 2, batch: 8, lr: 1e-2, warmup_steps: 1}
optimizer: {lr: 1e-3, warmup_steps: 1}
train: {steps: 3, micro_tokens: 64}
validation: {at_start: true, every: 2}
checkpoint: {every: 0}
)";

// A folder that goes away.
class TemporaryFolder {
  public:
    TemporaryFolder() {
        std::string pattern = (std::filesystem::temp_directory_path() / "fp8rl_test_XXXXXX").string();
        path_ = mkdtemp(pattern.data());
    }
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

struct FinishedRun {
    rl::TrainResult result;
    std::vector<nlohmann::json> records;
    std::vector<std::vector<float>> weights;  // masters, in the order of the parameter set
    std::vector<std::vector<float>> state;
    std::string verdict;
};

inline void read_model(FinishedRun& run, rl::Session& session) {
    session.model().params().visit([&](Param& p) {
        const auto* data = p.master.as<float>();
        run.weights.emplace_back(data, data + p.size());
    });
    for (const auto& s : session.model().state()) run.state.push_back(s.values);
}

inline FinishedRun train_in(const std::string& folder, const std::vector<std::string>& overrides,
                            rl::TrainerHooks hooks = {}, bool resume = false,
                            const char* recipe_text = tiny_recipe) {
    std::vector<std::string> all = overrides;
    all.push_back("checkpoint.dir=" + folder);
    Recipe recipe = parse_recipe(recipe_text, "test", all).recipe;
    auto backend = make_cpu_backend();
    rl::Session session(recipe, *backend, rl::Session::Purpose::train);
    FinishedRun out;
    out.verdict = verdict_text(session.plan());
    run::RunFolder run_folder(folder, resume ? run::OpenMode::resume : run::OpenMode::overwrite);
    session.load();
    run::Progress::Options quiet;
    quiet.quiet_seconds = 1e9;
    run::Progress progress(quiet);
    {
        run::MetricsWriter metrics(run_folder.metrics_path(), run::StdoutForm::none);
        rl::Trainer trainer(session, run_folder, metrics, progress, run::TimeLimit(), std::move(hooks));
        if (resume) trainer.resume();
        out.result = trainer.run();
    }
    read_model(out, session);
    CHECK(session.weights().high_water() == session.plan().weights);
    CHECK(session.phase().high_water() <= session.plan().phase);
    CHECK(session.scratch().high_water() <= session.plan().scratch);
    std::ifstream in(run_folder.metrics_path());
    for (std::string line; std::getline(in, line);) out.records.push_back(nlohmann::json::parse(line));
    return out;
}

inline FinishedRun train(const std::vector<std::string>& overrides, rl::TrainerHooks hooks = {}) {
    TemporaryFolder folder;
    return train_in(folder.path(), overrides, std::move(hooks));
}

// Records without what a clock measured.
inline std::vector<nlohmann::json> without_timings(const std::vector<nlohmann::json>& records) {
    std::vector<nlohmann::json> out;
    for (auto r : records) {
        for (auto it = r.begin(); it != r.end();)
            it = it.key().starts_with("timing/") ? r.erase(it) : std::next(it);
        out.push_back(std::move(r));
    }
    return out;
}

}  // namespace fp8rl::test
