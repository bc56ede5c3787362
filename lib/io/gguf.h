// io/gguf: reads GGUF files, versions 2 and 3 (little-endian): metadata of every kind, tensor infos, and
// dequantization of F32, F16, BF16, Q8_0, Q4_0, Q4_1 and Q6_K to float. Format: the GGUF specification of the
// ggml project. The file is mapped; every count, offset and size is checked against it when it is opened.
// Refused: another magic or version, a big-endian file, truncation, duplicate names, bad alignment, unknown
// kinds. A tensor type it can list but not decode is refused by name when the tensor is asked for. Knows
// files, not models: rows come out in file order.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/file.h"

namespace fp8rl {

struct GgufTensor {
    std::string name;
    uint32_t type = 0;           // ggml_type
    std::vector<int64_t> shape;  // outermost first (the file stores them innermost first)
    uint64_t offset = 0;         // from the start of the file
    uint64_t bytes = 0;

    int64_t size() const {
        int64_t n = 1;
        for (int64_t d : shape) n *= d;
        return n;
    }
    int64_t cols() const { return shape.empty() ? 1 : shape.back(); }
    int64_t rows() const { return cols() ? size() / cols() : 0; }
    std::string type_name() const;  // "Q4_1"
};

class GgufFile {
  public:
    explicit GgufFile(const std::string& path);
    // The same checks on bytes in memory; `name` stands in messages.
    static GgufFile from_memory(std::string bytes, std::string name);

    const std::string& path() const { return file_.path(); }
    uint32_t version() const { return version_; }
    uint64_t file_bytes() const { return file_.size(); }

    // Metadata. A missing key or another kind is refused, naming file and key. Integers of every width are
    // one kind, and so are both floats; number() takes integers too.
    bool has(std::string_view key) const { return find_entry(key) != nullptr; }
    std::vector<std::string> keys() const;
    int64_t integer(std::string_view key) const;
    double number(std::string_view key) const;
    bool boolean(std::string_view key) const;
    std::string string(std::string_view key) const;
    int64_t integer_or(std::string_view key, int64_t fallback) const;
    double number_or(std::string_view key, double fallback) const;
    bool boolean_or(std::string_view key, bool fallback) const;
    std::string string_or(std::string_view key, const std::string& fallback) const;
    // Arrays. The views point into the file.
    std::vector<std::string_view> strings(std::string_view key) const;
    std::vector<int64_t> integers(std::string_view key) const;
    std::vector<double> numbers(std::string_view key) const;
    // For people: `key = value`, long strings and arrays shortened.
    std::string describe(std::string_view key) const;

    const std::vector<GgufTensor>& tensors() const { return tensors_; }
    const GgufTensor* find(std::string_view name) const;  // nullptr: absent
    const GgufTensor& tensor(std::string_view name) const;

    // Rows [first, first + count) of the [rows, cols] reading, to count * cols floats, in the calling thread;
    // safe to call from many threads at once.
    void dequantize_rows(const GgufTensor& t, int64_t first, int64_t count, float* out) const;
    // All rows, on all threads.
    void dequantize(const GgufTensor& t, std::span<float> out) const;
    std::vector<float> dequantize(std::string_view name) const;
    // Whether dequantize knows the type.
    static bool can_dequantize(uint32_t type);

  private:
    struct Entry {
        std::string_view key;
        uint32_t kind = 0;     // gguf value type
        uint64_t offset = 0;   // of the value, or of an array's first element
        uint32_t element = 0;  // of an array
        uint64_t count = 0;
    };
    class Cursor;

    explicit GgufFile(MappedFile file);
    const Entry* find_entry(std::string_view key) const;
    const Entry& entry(std::string_view key) const;
    const Entry& array(std::string_view key, const char* needed) const;
    [[noreturn]] void wrong_kind(const Entry& e, const char* needed) const;

    MappedFile file_;
    uint32_t version_ = 0;
    std::vector<Entry> entries_;
    std::vector<GgufTensor> tensors_;
    std::unordered_map<std::string_view, size_t> entry_index_;  // views into the file
    std::unordered_map<std::string, size_t> tensor_index_;
};

}  // namespace fp8rl
