// run/checkpoint, the reading side: nothing of a checkpoint is used before all of it was compared with its
// manifest.
#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "io/json.h"
#include "run/checkpoint.h"
#include "run/digest.h"

namespace fp8rl::run {
namespace {

bool is_safetensors(const std::string& name) {
    const std::string end = ".safetensors";
    return name.size() > end.size() && name.compare(name.size() - end.size(), end.size(), end) == 0;
}

Json read_manifest(const std::string& path) {
    if (!std::filesystem::exists(path)) refuse(path, ": is missing, so the checkpoint was never completed");
    Json whole = Json::parse_file(path);
    Json manifest = whole.at("manifest");
    if (hex16(xxh64(manifest.dump())) != whole.at("xxh64").as_string()) refuse(path, ": checksum differs");
    if (manifest.at("format").as_string() != "fp8rl checkpoint" || manifest.at("version").as_integer() != 1)
        refuse(path, ": is of another format or version; fp8rl checkpoint, version 1 is read");
    return manifest;
}

void verify(const std::string& path, int64_t bytes, const std::string& digest) {
    if (!std::filesystem::exists(path)) refuse(path, ": is missing");
    MappedFile file(path);
    if (file.size() != static_cast<uint64_t>(bytes))
        refuse(path, ": ", file.size(), " bytes, the manifest says ", bytes,
               file.size() < static_cast<uint64_t>(bytes) ? " (cut short)" : " (too long)");
    if (hex16(xxh64(file)) != digest) refuse(path, ": checksum differs");
}

std::string shape_text(const std::vector<int64_t>& shape, DType dtype) {
    std::string s = "[";
    for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
    return s + "] " + name_of(dtype);
}

}  // namespace

struct CheckpointReader::Impl {
    std::string folder;
    int64_t step = 0;
    std::optional<int64_t> best;
    std::string state, recipe;
    std::map<std::string, SafetensorsFile> files;
    std::map<std::string, std::set<std::string>> read;
};

CheckpointReader::CheckpointReader(const std::string& folder) : impl_(std::make_unique<Impl>()) {
    impl_->folder = folder;
    const Json manifest = read_manifest(folder + "/manifest.json");
    impl_->step = manifest.at("step").as_integer();
    if (manifest.has("best")) impl_->best = manifest.at("best").as_integer();
    bool state = false, recipe = false;
    for (const Json& entry : manifest.at("files").items()) {
        const std::string& name = entry.at("name").as_string();
        const std::string path = folder + "/" + name;
        verify(path, entry.at("bytes").as_integer(), entry.at("xxh64").as_string());
        if (is_safetensors(name)) impl_->files.emplace(name, SafetensorsFile(path));
        if (name == "state.json") impl_->state = read_text_file(path), state = true;
        if (name == "recipe.yaml") impl_->recipe = read_text_file(path), recipe = true;
    }
    if (!state || !recipe) refuse(folder, ": its manifest lists no ", state ? "recipe.yaml" : "state.json");
}

CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

int64_t CheckpointReader::step() const { return impl_->step; }
std::optional<int64_t> CheckpointReader::best() const { return impl_->best; }
const std::string& CheckpointReader::folder() const { return impl_->folder; }
const std::string& CheckpointReader::state() const { return impl_->state; }
const std::string& CheckpointReader::recipe() const { return impl_->recipe; }
bool CheckpointReader::has_file(const std::string& file) const { return impl_->files.count(file) > 0; }

const SafetensorsFile& CheckpointReader::file(const std::string& name) const {
    auto it = impl_->files.find(name);
    if (it == impl_->files.end()) refuse(impl_->folder, ": holds no ", name);
    return it->second;
}

void CheckpointReader::read(const std::string& file_name, const std::string& name, const Tensor& to) {
    const SafetensorsFile& source = file(file_name);
    const SafeTensor& t = source.tensor(name);
    std::vector<int64_t> shape(to.shape.begin(), to.shape.begin() + to.rank);
    if (t.shape != shape || t.dtype != to.dtype)
        refuse(source.path(), ": tensor ", name, ": ", shape_text(t.shape, t.dtype), " in the file, ",
               shape_text(shape, to.dtype), " needed");
    source.copy(t, to.dtype, to.data, to.bytes());
    impl_->read[file_name].insert(name);
}

void CheckpointReader::require_all_read(const std::string& file_name) const {
    std::vector<std::string> unread;
    const std::set<std::string>& done = impl_->read[file_name];
    for (const SafeTensor& t : file(file_name).tensors())
        if (!done.count(t.name)) unread.push_back(t.name);
    if (!unread.empty())
        refuse(file(file_name).path(), ": ", unread.size(),
               " tensors belong to nothing in this model: ", text::join(unread, ", "));
}

}  // namespace fp8rl::run
