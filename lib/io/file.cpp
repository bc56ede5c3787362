#include "io/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace fp8rl {

MappedFile::MappedFile(const std::string& path) : path_(path) {
    int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) refuse(path, ": cannot be opened: ", std::strerror(errno));
    struct stat info {};
    if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        ::close(fd);
        refuse(path, ": is not a regular file");
    }
    size_ = static_cast<uint64_t>(info.st_size);
    if (size_) {
        void* m = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
        int error = errno;
        ::close(fd);
        if (m == MAP_FAILED) refuse(path, ": cannot be mapped: ", std::strerror(error));
        mapping_ = m;
        data_ = static_cast<const uint8_t*>(m);
    } else {
        ::close(fd);
    }
}

MappedFile MappedFile::from_memory(std::string bytes, std::string name) {
    MappedFile f;
    f.path_ = std::move(name);
    f.memory_ = std::move(bytes);
    f.data_ = reinterpret_cast<const uint8_t*>(f.memory_.data());
    f.size_ = f.memory_.size();
    return f;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      memory_(std::move(other.memory_)),
      data_(other.data_),
      size_(other.size_),
      mapping_(std::exchange(other.mapping_, nullptr)) {
    // A short string keeps its bytes inside the object, so the view moves with it.
    if (!mapping_) data_ = reinterpret_cast<const uint8_t*>(memory_.data());
}

MappedFile::~MappedFile() {
    if (mapping_) ::munmap(mapping_, size_);
}

OutputFile::OutputFile(const std::string& path, Mode mode) : path_(path) {
    fd_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | (mode == Mode::create ? O_TRUNC : O_APPEND),
                 0666);
    if (fd_ < 0) refuse(path, ": cannot be written: ", std::strerror(errno));
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), written_(other.written_) {}

OutputFile::~OutputFile() {
    if (fd_ >= 0) ::close(fd_);
}

void OutputFile::fail(const char* what, uint64_t missing, int error) {
    refuse(path_, ": ", what, " failed: ", std::strerror(error), " (", written_, " bytes written, ", missing,
           " missing)");
}

void OutputFile::write(const void* data, uint64_t bytes) {
    check(fd_ >= 0, path_, ": written after close");
    auto* p = static_cast<const char*>(data);
    while (bytes) {
        ssize_t n = ::write(fd_, p, std::min<uint64_t>(bytes, uint64_t{1} << 30));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail("write", bytes, n < 0 ? errno : ENOSPC);
        p += n;
        bytes -= static_cast<uint64_t>(n);
        written_ += static_cast<uint64_t>(n);
    }
}

void OutputFile::sync() {
    check(fd_ >= 0, path_, ": synced after close");
    // EINVAL: a pipe or a device, which has nothing to sync.
    if (::fsync(fd_) != 0 && errno != EINVAL) fail("sync", 0, errno);
}

void OutputFile::close() {
    if (fd_ < 0) return;
    int result = ::close(std::exchange(fd_, -1));
    if (result != 0) fail("close", 0, errno);
}

std::string read_text_file(const std::string& path) { return std::string(MappedFile(path).text()); }

void sync_folder(const std::string& path) {
    int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) refuse(path, ": cannot be opened: ", std::strerror(errno));
    int result = ::fsync(fd), error = errno;
    ::close(fd);
    if (result != 0 && error != EINVAL) refuse(path, ": sync failed: ", std::strerror(error));
}

}  // namespace fp8rl
