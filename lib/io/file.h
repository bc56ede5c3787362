// io/file: bytes in and out. A MappedFile is a read-only view of a whole file (or of bytes in memory, for
// tests and fuzzing); an OutputFile writes sequentially and turns every short write, full disk or failed sync
// into an error that names the path and what is missing. Neither knows what the bytes mean. A file that
// another program truncates while it is mapped is beyond help here (the kernel sends SIGBUS).
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace fp8rl {

class MappedFile {
  public:
    // Refuses a path that cannot be opened or is not a regular file.
    explicit MappedFile(const std::string& path);
    static MappedFile from_memory(std::string bytes, std::string name);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&&) = delete;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    const std::string& path() const { return path_; }
    const uint8_t* data() const { return data_; }  // not aligned beyond 1 when it came from memory
    uint64_t size() const { return size_; }
    std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

  private:
    MappedFile() = default;
    std::string path_;
    std::string memory_;
    const uint8_t* data_ = nullptr;
    uint64_t size_ = 0;
    void* mapping_ = nullptr;
};

class OutputFile {
  public:
    enum class Mode { create, append };
    // create: truncates what is there. The folder must exist.
    explicit OutputFile(const std::string& path, Mode mode = Mode::create);
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&&) = delete;
    ~OutputFile();  // closes without a word; call close() to hear of errors

    void write(const void* data, uint64_t bytes);
    void write(std::string_view s) { write(s.data(), s.size()); }
    void sync();   // fsync
    void close();  // reports what the file system kept back until now
    uint64_t written() const { return written_; }
    const std::string& path() const { return path_; }

  private:
    [[noreturn]] void fail(const char* what, uint64_t missing, int error);
    std::string path_;
    int fd_ = -1;
    uint64_t written_ = 0;
};

std::string read_text_file(const std::string& path);
// fsync of a folder: makes names created or renamed in it survive a power cut.
void sync_folder(const std::string& path);

}  // namespace fp8rl
