#include "io/safetensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "io/half.h"
#include "io/json.h"

namespace fp8rl {

static constexpr uint64_t max_header = 100'000'000;  // the limit of the reference implementation

struct DTypeName {
    const char* name;
    DType dtype;
};
static constexpr DTypeName dtype_names[] = {
    {"F32", DType::f32},      {"BF16", DType::bf16},    {"F16", DType::f16},
    {"F8_E4M3", DType::e4m3}, {"F8_E5M2", DType::e5m2}, {"F8_E8M0", DType::e8m0},
    {"I32", DType::i32},      {"I64", DType::i64},      {"U8", DType::u8}};

static const char* published_name(DType t) {
    for (const DTypeName& d : dtype_names)
        if (d.dtype == t) return d.name;
    defect("safetensors: no name for dtype ", name_of(t));
}

static DType dtype_of_name(const Json& name) {
    for (const DTypeName& d : dtype_names)
        if (name.as_string() == d.name) return d.dtype;
    std::string allowed;
    for (const DTypeName& d : dtype_names) allowed += (allowed.empty() ? "" : ", ") + std::string(d.name);
    refuse(name.where(), ": \"", name.as_string(), "\" is not supported; ", allowed, " are");
}

SafetensorsFile::SafetensorsFile(const std::string& path) : SafetensorsFile(MappedFile(path)) {}

SafetensorsFile SafetensorsFile::from_memory(std::string bytes, std::string name) {
    return SafetensorsFile(MappedFile::from_memory(std::move(bytes), std::move(name)));
}

SafetensorsFile::SafetensorsFile(MappedFile file) : file_(std::move(file)) {
    if (file_.size() < 8)
        refuse(path(), ": is not a safetensors file: ", file_.size(), " bytes, at least 8 are needed");
    uint64_t length;
    std::memcpy(&length, file_.data(), 8);
    if (length > max_header)
        refuse(path(), ": a header of ", length, " bytes; at most ", max_header, " are allowed");
    if (length > file_.size() - 8)
        refuse(path(), ": the header of ", length, " bytes does not fit into the file of ", file_.size());
    read_header(file_.text().substr(8, length));
    for (SafeTensor& t : tensors_) t.offset += 8 + length;
    check_layout(file_.size() - 8 - length);
}

// Offsets are those of the header here: counted from the end of it.
void SafetensorsFile::read_header(std::string_view header) {
    if (header.empty() || header[0] != '{') refuse(path(), ": the header does not begin with {");
    const Json json = Json::parse(header, path());
    for (const auto& [name, entry] : json.members()) {
        if (name == "__metadata__") {
            for (const auto& [key, value] : entry.members()) metadata_.emplace(key, value.as_string());
            continue;
        }
        SafeTensor t;
        t.name = name;
        t.dtype = dtype_of_name(entry.at("dtype"));
        uint64_t size = 1;
        for (const Json& n : entry.at("shape").items()) {
            int64_t d = n.as_integer();
            if (d < 0) refuse(n.where(), ": ", d, " is negative");
            if (d && size > static_cast<uint64_t>(INT64_MAX / 8 / d))
                refuse(n.where(), ": the shape overflows");
            size *= static_cast<uint64_t>(d);
            t.shape.push_back(d);
        }
        const Json& offsets = entry.at("data_offsets");
        if (offsets.size() != 2) refuse(offsets.where(), ": two numbers are needed");
        int64_t begin = offsets[0].as_integer(), end = offsets[1].as_integer();
        if (begin < 0 || end < begin) refuse(offsets.where(), ": [", begin, ", ", end, "] is no range");
        t.offset = static_cast<uint64_t>(begin);
        t.bytes = static_cast<uint64_t>(end - begin);
        if (t.bytes != size * size_of(t.dtype))
            refuse(path(), ": tensor ", name, ": ", t.bytes, " bytes of data, but its shape and dtype need ",
                   size * size_of(t.dtype));
        tensors_.push_back(std::move(t));
    }
    std::stable_sort(tensors_.begin(), tensors_.end(), [](const SafeTensor& a, const SafeTensor& b) {
        return a.offset != b.offset ? a.offset < b.offset : a.bytes < b.bytes;
    });
    for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
}

void SafetensorsFile::check_layout(uint64_t data_bytes) const {
    const uint64_t data = file_.size() - data_bytes;
    uint64_t end = 0;
    for (const SafeTensor& t : tensors_) {
        uint64_t begin = t.offset - data;
        if (begin < end) refuse(path(), ": tensor ", t.name, " overlaps the one before it");
        if (begin > end) refuse(path(), ": a hole of ", begin - end, " bytes before tensor ", t.name);
        end = begin + t.bytes;
        if (end > data_bytes)
            refuse(path(), ": tensor ", t.name, " ends at byte ", end, " of the data, the file holds ",
                   data_bytes, " (cut short by ", end - data_bytes, ")");
    }
    if (end != data_bytes)
        refuse(path(), ": ", data_bytes - end, " bytes after the last tensor belong to none");
}

const SafeTensor* SafetensorsFile::find(std::string_view name) const {
    auto it = index_.find(std::string(name));
    return it == index_.end() ? nullptr : &tensors_[it->second];
}

const SafeTensor& SafetensorsFile::tensor(std::string_view name) const {
    if (const SafeTensor* t = find(name)) return *t;
    refuse(path(), ": the tensor ", name, " is missing");
}

void SafetensorsFile::copy(const SafeTensor& t, DType dtype, void* out, uint64_t bytes) const {
    if (t.dtype != dtype || t.bytes != bytes)
        refuse(path(), ": tensor ", t.name, ": ", t.bytes, " bytes of ", published_name(t.dtype),
               ", needed are ", bytes, " of ", published_name(dtype));
    if (bytes) std::memcpy(out, file_.data() + t.offset, bytes);
}

std::vector<float> SafetensorsFile::floats(const SafeTensor& t) const {
    std::vector<float> out(static_cast<size_t>(t.size()));
    const uint8_t* p = file_.data() + t.offset;
    auto load16 = [&](size_t i) {
        uint16_t v;
        std::memcpy(&v, p + 2 * i, 2);
        return v;
    };
    switch (t.dtype) {
        case DType::f32: copy(t, DType::f32, out.data(), t.bytes); break;
        case DType::bf16:
            for (size_t i = 0; i < out.size(); ++i) out[i] = bf16_to_float(load16(i));
            break;
        case DType::f16:
            for (size_t i = 0; i < out.size(); ++i) out[i] = half_to_float(load16(i));
            break;
        default:
            refuse(path(), ": tensor ", t.name, ": ", published_name(t.dtype),
                   " where F32, BF16 or F16 is needed");
    }
    return out;
}

uint64_t write_safetensors(const std::string& path, std::span<const TensorSource> tensors,
                           const Metadata& metadata, bool sync) {
    Json header = Json::object();
    if (!metadata.empty()) {
        Json m = Json::object();
        for (const auto& [key, value] : metadata) m.set(key, value);
        header.set("__metadata__", std::move(m));
    }
    uint64_t at = 0;
    std::vector<uint64_t> sizes;
    Json::Members entries = header.members();
    std::unordered_map<std::string_view, size_t> seen;
    for (const TensorSource& t : tensors) {
        check(seen.emplace(t.name, sizes.size()).second && t.name != "__metadata__", path, ": tensor ",
              t.name, " written twice");
        Json shape = Json::array();
        uint64_t bytes = size_of(t.dtype);
        for (int64_t d : t.shape) {
            check(d >= 0, path, ": tensor ", t.name, ": negative dimension ", d);
            shape.push(d);
            bytes *= static_cast<uint64_t>(d);
        }
        Json entry = Json::object();
        entry.set("dtype", published_name(t.dtype)).set("shape", std::move(shape));
        entry.set("data_offsets", Json::array({static_cast<int64_t>(at), static_cast<int64_t>(at + bytes)}));
        entries.emplace_back(t.name, std::move(entry));
        sizes.push_back(bytes);
        at += bytes;
    }
    std::string text = Json::object(std::move(entries)).dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    if (text.size() > max_header) refuse(path, ": the header would take ", text.size(), " bytes");

    OutputFile out(path);
    uint64_t length = text.size();
    out.write(&length, 8);
    out.write(text);
    for (size_t i = 0; i < tensors.size(); ++i) out.write(tensors[i].data, sizes[i]);
    if (sync) out.sync();
    out.close();
    return out.written();
}

static bool exists(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0;
}

SafetensorsFolder::SafetensorsFolder(const std::string& folder) : folder_(folder) {
    const std::string index = folder + "/model.safetensors.index.json";
    if (!exists(index)) {
        const std::string single = folder + "/model.safetensors";
        if (!exists(single))
            refuse(folder, ": holds neither model.safetensors nor model.safetensors.index.json");
        add_shard(single);
        return;
    }
    const Json json = Json::parse_file(index);
    std::map<std::string, std::vector<std::string>> shards;
    for (const auto& [name, shard] : json.at("weight_map").members()) {
        const std::string& file = shard.as_string();
        if (file.empty() || file.find('/') != std::string::npos || file == "." || file == "..")
            refuse(shard.where(), ": \"", file, "\" is not the name of a file in this folder");
        shards[file].push_back(name);
    }
    for (const auto& [file, names] : shards)
        if (!exists(folder + "/" + file))
            refuse(index, ": the shard ", file, " (", names.size(), " tensors, the first ", names[0],
                   ") is missing");
    for (const auto& [file, names] : shards) {
        add_shard(folder + "/" + file);
        for (const std::string& name : names)
            if (!files_.back()->find(name))
                refuse(index, ": the tensor ", name, " is not in its shard ", file);
    }
}

void SafetensorsFolder::add_shard(const std::string& path) {
    files_.push_back(std::make_unique<SafetensorsFile>(path));
    const SafetensorsFile& file = *files_.back();
    for (const SafeTensor& t : file.tensors()) {
        auto [it, added] = tensors_.emplace(t.name, Found{&file, &t});
        if (!added) refuse("tensor ", t.name, " is in two files: ", it->second.file->path(), " and ", path);
    }
}

const SafetensorsFolder::Found* SafetensorsFolder::find(std::string_view name) const {
    auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
}

SafetensorsFolder::Found SafetensorsFolder::tensor(std::string_view name) const {
    if (const Found* f = find(name)) return *f;
    refuse(folder_, ": the tensor ", name, " is in no file");
}

void SafetensorsFolder::require(const std::vector<std::string>& names) const {
    std::vector<std::string> missing;
    for (const std::string& name : names)
        if (!find(name)) missing.push_back(name);
    if (missing.empty()) return;
    const size_t count = missing.size();
    if (count > 10) missing.resize(10);
    refuse(folder_, ": ", count, " tensor", count == 1 ? " is" : "s are",
           " in no file: ", text::join(missing, ", "), count > 10 ? ", ..." : "");
}

std::vector<std::string> SafetensorsFolder::names() const {
    std::vector<std::string> out;
    for (const auto& entry : tensors_) out.push_back(entry.first);
    return out;
}

}  // namespace fp8rl
