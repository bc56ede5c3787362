// fp8rl: the command line. The only place that catches: every error becomes one line on stderr and an exit
// code (0 done, 2 the user can fix it, 3 a defect, 4 the device or a peer failed, 130 interrupted after a
// checkpoint).
#include <CLI/CLI.hpp>
#include <cstdio>
#include <new>

#include "apps/commands.h"
#include "core/error.h"
#include "run/log.h"

int main(int argc, char** argv) {
    using namespace fp8rl;
    CLI::App app("fp8rl trains language models by reinforcement learning with FP8 end to end.", "fp8rl");
    app.require_subcommand(1);
    app.set_version_flag("--version", "fp8rl 0.1.0");
    app.footer(
        "Exit codes: 0 done, 2 recipe, files or arguments, 3 a defect, 4 device or peer, 130 interrupted.\n"
        "stdout carries data and nothing else; the log and the progress bar go to stderr.");
    std::vector<std::pair<CLI::App*, apps::Action>> commands;
    auto add = [&](const char* name, const char* what, apps::Action (*make)(CLI::App&)) {
        CLI::App* sub = app.add_subcommand(name, what);
        commands.emplace_back(sub, make(*sub));
    };
    add("train", "Train a model from a recipe", apps::add_train);
    add("eval", "Accuracy, pass@k and cons@k of a model or checkpoint on a recipe's task", apps::add_eval);
    add("generate", "Write completions of prompts, as a chat or plain", apps::add_generate);
    add("plan", "Precision by layer, bytes, FLOPs and the exactness verdict, without touching a device",
        apps::add_plan);
    add("bench", "Measure GEMMs, prefill, decode and training on this machine", apps::add_bench);
    add("recipe", "Check a recipe, or print what it resolves to", apps::add_recipe);
    add("info", "This build, this machine, the launcher's placement, or a model file", apps::add_info);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& e) {
        if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
        run::log::error(std::string(e.what()) + " (--help tells more)");
        return static_cast<int>(Fault::user);
    }
    try {
        for (auto& [sub, action] : commands)
            if (sub->parsed()) return action();
    } catch (const Error& e) {
        run::log::error(e.what());
        return e.exit_code();
    } catch (const std::bad_alloc&) {
        run::log::error("out of memory");
        return static_cast<int>(Fault::device);
    } catch (const std::exception& e) {
        run::log::error(std::string("unexpected: ") + e.what());
        return static_cast<int>(Fault::defect);
    }
    return 0;
}
