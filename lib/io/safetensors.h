// io/safetensors: reads and writes safetensors files: 8 bytes of header length, a JSON header, then the
// tensors' bytes without holes. A file is judged whole before anything of it is used: refused are a cut or
// over-long file, a header past 100 MB or its own end, overlaps, holes, trailing bytes, sizes that disagree
// with shapes, duplicate names and dtypes that core/dtype cannot hold. Tensor data may stand at any address,
// so it is only handed out as bytes or copied. No tensor is ever filled with zeros or noise: what is missing
// is an error.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/dtype.h"
#include "io/file.h"

namespace fp8rl {

using Metadata = std::map<std::string, std::string>;

struct SafeTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;
    uint64_t offset = 0;  // from the start of the file
    uint64_t bytes = 0;

    int64_t size() const {
        int64_t n = 1;
        for (int64_t d : shape) n *= d;
        return n;
    }
};

class SafetensorsFile {
  public:
    explicit SafetensorsFile(const std::string& path);
    static SafetensorsFile from_memory(std::string bytes, std::string name);

    const std::string& path() const { return file_.path(); }
    const Metadata& metadata() const { return metadata_; }               // of "__metadata__"
    const std::vector<SafeTensor>& tensors() const { return tensors_; }  // in the order of their data
    const SafeTensor* find(std::string_view name) const;                 // nullptr: absent
    const SafeTensor& tensor(std::string_view name) const;

    // Not aligned: to be read with memcpy.
    std::span<const uint8_t> bytes(const SafeTensor& t) const { return {file_.data() + t.offset, t.bytes}; }
    // All of the tensor's bytes; dtype and size must be those of the tensor.
    void copy(const SafeTensor& t, DType dtype, void* out, uint64_t bytes) const;
    // F32, BF16 and F16 as floats; other dtypes are refused.
    std::vector<float> floats(const SafeTensor& t) const;

  private:
    explicit SafetensorsFile(MappedFile file);
    void read_header(std::string_view header);
    void check_layout(uint64_t data_bytes) const;

    MappedFile file_;
    Metadata metadata_;
    std::vector<SafeTensor> tensors_;
    std::unordered_map<std::string, size_t> index_;
};

struct TensorSource {
    std::string name;
    DType dtype;
    std::vector<int64_t> shape;
    const void* data;  // contiguous
};

// Writes the tensors in the order given (their data begins 8-byte aligned) and returns the bytes written.
// `sync`: on disk when it returns. A full disk or a short write is refused with the path and the bytes
// missing; the file is then incomplete.
uint64_t write_safetensors(const std::string& path, std::span<const TensorSource> tensors,
                           const Metadata& metadata, bool sync);

// The tensors of one model folder: model.safetensors, or the shards that model.safetensors.index.json names.
// Refused are a missing shard, a tensor that its shard lacks, a tensor in two shards. Files that the index
// does not name are not read.
class SafetensorsFolder {
  public:
    struct Found {
        const SafetensorsFile* file;
        const SafeTensor* tensor;
    };
    explicit SafetensorsFolder(const std::string& folder);

    const Found* find(std::string_view name) const;  // nullptr: absent
    Found tensor(std::string_view name) const;       // refused when absent, naming the folder
    // Refuses unless every name is there; all that are missing are named (the first ten).
    void require(const std::vector<std::string>& names) const;
    std::vector<std::string> names() const;

  private:
    void add_shard(const std::string& path);

    std::string folder_;
    std::vector<std::unique_ptr<SafetensorsFile>> files_;
    std::map<std::string, Found, std::less<>> tensors_;
};

}  // namespace fp8rl
