// fp8rl info: this build and machine, where a launcher would place this process, or what a model file holds.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>

#include "apps/commands.h"
#include "core/parallel.h"
#include "core/text.h"
#include "cpu/cpu_backend.h"
#include "dist/comm.h"
#include "dist/launch.h"
#include "io/gguf.h"
#include "io/tokenizer.h"
#include "nn/spec.h"

namespace fp8rl::apps {
namespace {

void print(const char* key, const std::string& value) { std::printf("%-14s %s\n", key, value.c_str()); }

void machine() {
    print("version", "0.1.0");
    print("backends", text::join(backends(), ", "));
    print("device", make_cpu_backend()->device());
    std::vector<std::string> paths;
    for (auto s : cpu::available_simd()) paths.push_back(cpu::name_of(s));
    print("simd", text::join(paths, ", "));
    print("threads", std::to_string(parallel::available_threads()));
    print("mpi", dist::have_mpi() ? "linked" : "not in this build");
    const auto environment = dist::environment();
    dist::Placement p = dist::place(environment, dist::listed_gpus(environment).value_or(0));
    print("launcher", cat(p.launcher, ", rank ", p.rank, " of ", p.world, ", ",
                          p.on_cpu() ? std::string("cpu") : cat("gpu ", p.device)));
    if (!p.notice.empty()) print("notice", p.notice);
}

void model(const std::string& path) {
    GgufFile file(path);
    ModelSpec s = spec_from_gguf(file);
    auto tokenizer = tokenizer_from_gguf(file);
    print("file", cat(path, ", GGUF v", file.version(), ", ",
                      text::human_bytes(static_cast<double>(file.file_bytes()))));
    print("architecture", s.architecture);
    print("parameters",
          cat(s.parameters(), " (", text::human_count(static_cast<double>(s.parameters())), ")"));
    print("shape", cat(s.layers, " layers, hidden ", s.hidden, ", ffn ", s.ffn, ", ", s.heads, " heads, ",
                       s.kv_heads, " kv heads, head ", s.head_dim));
    print("vocabulary", cat(s.vocab, s.tied ? ", tied head" : ", own head"));
    print("positions", cat(s.max_position, ", rope theta ", s.rope.theta));
    print("tokenizer", tokenizer->kind());
    std::vector<std::string> stops;
    for (int32_t id : tokenizer->stop_ids()) stops.push_back(cat(id, " ", tokenizer->bytes_of(id)));
    print("stop ids", text::join(stops, ", "));
    print("chat template", tokenizer->chat_template().empty() ? "none" : "yes");
    std::map<std::string, int> types;
    for (const auto& t : file.tensors()) ++types[t.type_name()];
    std::vector<std::string> parts;
    for (const auto& [type, n] : types) parts.push_back(cat(n, " ", type));
    print("tensors", text::join(parts, ", "));
}

}  // namespace

Action add_info(CLI::App& app) {
    auto path = std::make_shared<std::string>();
    app.add_option("MODEL", *path, "a GGUF file");
    return [path] {
        path->empty() ? machine() : model(*path);
        return 0;
    };
}

}  // namespace fp8rl::apps
