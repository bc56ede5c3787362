// run/run_folder: the folder that holds a run: recipe.yaml (resolved), metrics.jsonl, completions.jsonl,
// checkpoints/, summary.json. A run is never overwritten by accident: a folder with a run in it is refused
// unless the caller resumes it or says overwrite. A lock (flock, gone with the process) keeps two processes
// out of one folder.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "io/file.h"
#include "run/metrics.h"

namespace fp8rl::run {

enum class OpenMode { fresh, resume, overwrite };

class RunFolder {
  public:
    // fresh: refused when a run is there. resume: refused when none is. overwrite: the files of the old run,
    // and only those, are removed. Creates parents. Refused at once when another process holds the folder.
    RunFolder(const std::string& path, OpenMode mode);
    RunFolder(const RunFolder&) = delete;
    RunFolder& operator=(const RunFolder&) = delete;
    ~RunFolder();

    const std::string& path() const { return path_; }
    std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
    std::string recipe_path() const { return file("recipe.yaml"); }
    std::string metrics_path() const { return file("metrics.jsonl"); }
    std::string completions_path() const { return file("completions.jsonl"); }

    void write_recipe(const std::string& resolved_yaml);
    void write_summary(const Record& summary);  // one member per line
    // After a resume from `step`: metrics and completions of later steps are cut off, a summary is removed.
    void rewind_to(int64_t step);

  private:
    void replace(const std::string& name, std::string_view text);

    std::string path_;
    int lock_ = -1;
};

struct Completion {
    int64_t step = 0;
    std::string phase;  // "train", "validation"
    std::string prompt, completion;
    std::string answer;  // the reference, "" when there is none
    double reward = 0;
    int64_t tokens = 0;
    std::string finish;  // finish reason
};

// Appends sampled completions as JSON lines; text that is not UTF-8 becomes U+FFFD.
class CompletionsWriter {
  public:
    explicit CompletionsWriter(const std::string& path);
    void write(const Completion& completion);

  private:
    OutputFile file_;
};

}  // namespace fp8rl::run
