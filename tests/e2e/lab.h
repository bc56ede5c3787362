// A tiny recipe and the runs made of it. The model learns to sort two digits for 100 supervised steps, after
// which some groups in every RL step hold right and wrong answers, so each step has a gradient. The guard of
// the FP8 cache is off, or the quick warm-up would soon turn it into BF16. The whole run takes about a tenth
// of a second.
#pragma once
#include <string>
#include <vector>

#include "e2e/program.h"
#include "test.h"

namespace fp8rl::test {

using Strings = std::vector<std::string>;
using Line = nlohmann::ordered_json;

class Lab {
  public:
    Lab();

    // fp8rl train with the lab's recipe into the folder of that name, with these overrides (a.b=c).
    Strings arguments(const std::string& run, const Strings& sets = {}, const Strings& flags = {}) const;
    Result train(const std::string& run, const Strings& sets = {}, const Strings& flags = {},
                 const Options& options = {}) const;
    // The same, which must succeed.
    Result trained(const std::string& run, const Strings& sets = {}, const Strings& flags = {},
                   const Options& options = {}) const;

    const Scratch& scratch() const { return scratch_; }
    const std::string& recipe() const { return recipe_; }
    std::string folder(const std::string& run) const { return scratch_.file(run); }
    std::string file(const std::string& run, const std::string& name) const;  // its bytes
    bool has(const std::string& run, const std::string& name) const;
    nlohmann::json summary(const std::string& run) const;
    std::vector<Line> metrics(const std::string& run) const;
    // The weights of the newest checkpoint, as bytes.
    std::string weights(const std::string& run) const;
    // Every file's name and bytes below the run folder.
    Strings listing(const std::string& run) const;

  private:
    Scratch scratch_;
    std::string recipe_;
};

extern const char* const lab_recipe;
constexpr int lab_warmup = 100, lab_steps = 6;  // of the lab's recipe

std::vector<Line> json_lines(const std::string& text);
// Lines without the keys that begin with one of the prefixes, each as text: equal runs have equal lists.
Strings without(const std::vector<Line>& lines, const Strings& prefixes = {"timing/"});
// The lines of a phase.
std::vector<Line> only(const std::vector<Line>& lines, const std::string& phase);
// Every value under a key, of the lines that have it.
std::vector<double> column(const std::vector<Line>& lines, const std::string& key);
double sum(const std::vector<double>& values);

}  // namespace fp8rl::test
