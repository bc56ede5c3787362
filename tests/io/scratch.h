// A folder of its own for a test, removed at its end.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

namespace fp8rl::test {

class Scratch {
  public:
    Scratch() {
        std::string pattern = (std::filesystem::temp_directory_path() / "fp8rl-io-XXXXXX").string();
        folder_ = ::mkdtemp(pattern.data());
    }
    ~Scratch() { std::filesystem::remove_all(folder_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    std::string path(const std::string& name) const { return folder_ + "/" + name; }

  private:
    std::string folder_;
};

}  // namespace fp8rl::test
