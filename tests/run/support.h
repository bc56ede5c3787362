// Shared by the tests of lib/run: a folder that goes away, a child process, and a small checkpoint whose
// every value follows from its step.
#pragma once
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "run/checkpoint.h"
#include "test.h"

namespace fp8rl::run::test {

namespace fs = std::filesystem;

class TempFolder {
  public:
    TempFolder() {
        std::string name = (fs::temp_directory_path() / "fp8rl_run_XXXXXX").string();
        if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    ~TempFolder() {
        std::error_code ignored;
        fs::remove_all(path_, ignored);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

inline void write_file(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary) << text;
}

inline bool holds(const std::string& s, const std::string& part) { return s.find(part) != std::string::npos; }

// Runs body in a child and returns its pid; the child leaves with body's result, 99 after an exception.
inline pid_t start(const std::function<int()>& body) {
    pid_t pid = ::fork();
    if (pid != 0) return pid;
    int code = 99;
    try {
        code = body();
    } catch (const std::exception& e) {
        std::fprintf(stderr, "child: %s\n", e.what());
    }
    ::_exit(code);
}

inline int wait_for(pid_t pid) {
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// The refusal's message; "" when the call succeeds.
template <class Call>
std::string refusal(Call&& call) {
    try {
        call();
    } catch (const Error& e) {
        CHECK(e.fault() == Fault::user);
        return e.what();
    }
    return "";
}

// weights: two tensors, optimizer: one; value i of a tensor of step s is s + i / 1024.
struct Small {
    explicit Small(int64_t step, int64_t rows = 64) : a(rows * 16), b(48), m(rows * 16) {
        for (auto* v : {&a, &b, &m})
            for (size_t i = 0; i < v->size(); ++i)
                (*v)[i] = static_cast<float>(step) + static_cast<float>(i) / 1024.0f;
        data.step = step;
        data.files = {{"weights.safetensors",
                       {{"model.a", Tensor(a.data(), DType::f32, {rows, 16})},
                        {"model.b", Tensor(b.data(), DType::f32, {48})}}},
                      {"optimizer.safetensors", {{"model.a.m", Tensor(m.data(), DType::f32, {rows, 16})}}}};
        data.state = "{\"position\": " + std::to_string(step * 8) + "}";
        data.recipe = "name: small\n";
    }
    std::vector<float> a, b, m;
    CheckpointData data;
};

// True when the checkpoint holds exactly what Small(step) wrote.
inline bool is_small(CheckpointReader& reader, int64_t rows = 64) {
    Small expected(reader.step(), rows), got(0, rows);
    for (const auto& file : got.data.files) {
        for (const NamedTensor& t : file.tensors) reader.read(file.name, t.name, t.tensor);
        reader.require_all_read(file.name);
    }
    return got.a == expected.a && got.b == expected.b && got.m == expected.m &&
           reader.state() == expected.data.state && reader.recipe() == expected.data.recipe;
}

}  // namespace fp8rl::run::test
