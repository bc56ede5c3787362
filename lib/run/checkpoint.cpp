// run/checkpoint, the writing side: order of writes, syncs, rename and removal (checkpoint_reader.cpp reads).
#include "run/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "core/error.h"
#include "core/text.h"
#include "io/json.h"
#include "run/digest.h"

namespace fp8rl::run {
namespace {

namespace fs = std::filesystem;

constexpr const char* step_prefix = "step_";
constexpr const char* temporary_mark = ".tmp-";

std::function<void(const std::string&)>& hook() {
    static std::function<void(const std::string&)> h;
    return h;
}

void point(const std::string& name) {
    if (hook()) hook()(name);
    const char* pause = std::getenv("FP8RL_TEST_PAUSE");
    if (!pause) return;
    std::vector<std::string> parts = text::split(pause, ':');
    long long milliseconds = 0;
    if (parts.size() != 2 || !text::parse(parts[1], milliseconds) || milliseconds < 0)
        refuse("FP8RL_TEST_PAUSE=", pause, ": point:milliseconds is needed");
    if (parts[0] != name) return;
    std::string line = "test pause at " + name + "\n";
    if (::write(STDERR_FILENO, line.data(), line.size()) < 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

// The step of "step_<n>", and of nothing else.
std::optional<int64_t> step_of(const std::string& name) {
    if (name.rfind(step_prefix, 0) != 0) return std::nullopt;
    std::string digits = name.substr(std::strlen(step_prefix));
    long long step = 0;
    if (!text::parse(digits, step) || step < 0 || std::to_string(step) != digits) return std::nullopt;
    return step;
}

void write_text(const std::string& path, const std::string& content) {
    OutputFile out(path);
    out.write(content);
    out.sync();
    out.close();
}

uint64_t payload(const CheckpointData& data) {
    uint64_t bytes = data.state.size() + data.recipe.size();
    for (const auto& file : data.files)
        for (const NamedTensor& t : file.tensors) bytes += t.tensor.bytes();
    return bytes;
}

uint64_t bytes_in(const std::string& folder) {
    uint64_t bytes = 0;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(folder, failed)) {
        uint64_t size = fs::file_size(entry.path(), failed);
        if (!failed) bytes += size;
    }
    return bytes;
}

void must_rename(const std::string& from, const std::string& to) {
    if (::rename(from.c_str(), to.c_str()) != 0)
        refuse(to, ": cannot be put in place: ", std::strerror(errno));
}

void remove_folder(const std::string& folder) {
    std::error_code failed;
    fs::remove_all(folder, failed);
    if (failed) refuse(folder, ": cannot be removed: ", failed.message());
}

// Gone from its final name at once, then from the disk.
void retire(const std::string& folder) {
    std::string aside = cat(folder, temporary_mark, "old-", ::getpid());
    must_rename(folder, aside);
    remove_folder(aside);
}

// `temporary` becomes `final`. A folder that is there already (the step was saved before, or its copy was
// damaged) changes places with the new one, where the file system can do that in one step.
void put_in_place(const std::string& temporary, const std::string& final) {
    if (::rename(temporary.c_str(), final.c_str()) == 0) return;
    if (errno != ENOTEMPTY && errno != EEXIST)
        refuse(final, ": cannot be put in place: ", std::strerror(errno));
    if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, final.c_str(), RENAME_EXCHANGE) == 0) {
        remove_folder(temporary);
        return;
    }
    retire(final);
    must_rename(temporary, final);
}

}  // namespace

void set_checkpoint_hook(std::function<void(const std::string&)> h) { hook() = std::move(h); }

Checkpoints::Checkpoints(const std::string& run_folder, int64_t keep)
    : dir_(run_folder + "/checkpoints"), keep_(keep) {
    if (keep < 1) refuse("checkpoint.keep: ", keep, "; at least 1 checkpoint is kept");
    best_ = best();
}

std::string Checkpoints::folder_of(int64_t step) const { return cat(dir_, "/", step_prefix, step); }

std::vector<int64_t> Checkpoints::steps() const {
    std::vector<int64_t> found;
    std::error_code failed;
    for (const auto& entry : fs::directory_iterator(dir_, failed))
        if (auto step = step_of(entry.path().filename().string())) found.push_back(*step);
    std::sort(found.begin(), found.end());
    return found;
}

std::optional<int64_t> Checkpoints::pointer(const std::string& name) const {
    std::string path = dir_ + "/" + name;
    if (!fs::exists(path)) return std::nullopt;
    return step_of(std::string(text::trim(read_text_file(path))));
}

void Checkpoints::write_pointer(const std::string& name, int64_t step) const {
    std::string path = dir_ + "/" + name;
    write_text(path + ".tmp", cat(step_prefix, step, "\n"));
    must_rename(path + ".tmp", path);
}

std::optional<int64_t> Checkpoints::best() const {
    auto step = pointer("best");
    return step && fs::is_directory(folder_of(*step)) ? step : std::nullopt;
}

void Checkpoints::write_temporary(const std::string& folder, const CheckpointData& data) const {
    Json::Items listed;
    auto finished = [&](const std::string& name) {
        MappedFile file(folder + "/" + name);
        Json entry = Json::object();
        entry.set("name", name).set("bytes", static_cast<int64_t>(file.size()));
        entry.set("xxh64", hex16(xxh64(file)));
        point(listed.empty() ? "first_write" : "between_files");
        listed.push_back(std::move(entry));
    };
    for (const auto& file : data.files) {
        std::vector<TensorSource> sources;
        for (const NamedTensor& t : file.tensors) {
            check(t.tensor.rank > 0, "checkpoint: tensor ", t.name, " has no dimension");
            const auto& shape = t.tensor.shape;
            sources.push_back(
                {t.name, t.tensor.dtype, {shape.begin(), shape.begin() + t.tensor.rank}, t.tensor.data});
        }
        write_safetensors(folder + "/" + file.name, sources, {{"format", "pt"}}, true);
        finished(file.name);
    }
    write_text(folder + "/state.json", data.state);
    finished("state.json");
    write_text(folder + "/recipe.yaml", data.recipe);
    finished("recipe.yaml");

    Json manifest = Json::object();
    manifest.set("format", "fp8rl checkpoint").set("version", 1).set("step", data.step);
    manifest.set("best", best_ ? Json(*best_) : Json());
    manifest.set("files", Json::array(std::move(listed)));
    Json whole = Json::object();
    std::string digest = hex16(xxh64(manifest.dump()));
    whole.set("manifest", std::move(manifest)).set("xxh64", digest);
    write_text(folder + "/manifest.json", whole.dump(2) + "\n");
    sync_folder(folder);
}

void Checkpoints::save(const CheckpointData& data, bool best) {
    check(data.step >= 0, "checkpoint: step ", data.step);
    std::error_code failed;
    fs::create_directories(dir_, failed);
    if (failed) refuse(dir_, ": cannot be made: ", failed.message());
    remove_leftovers();

    const std::string final = folder_of(data.step);
    const std::string temporary = cat(final, temporary_mark, ::getpid());
    const std::optional<int64_t> best_before = best_;
    if (best) best_ = data.step;
    try {
        fs::create_directory(temporary, failed);
        if (failed) refuse(temporary, ": cannot be made: ", failed.message());
        write_temporary(temporary, data);
        point("before_rename");
        put_in_place(temporary, final);
    } catch (const Error& e) {
        best_ = best_before;
        uint64_t needed = payload(data), written = std::min(bytes_in(temporary), needed);
        fs::remove_all(temporary, failed);
        throw Error(e.fault(),
                    cat("checkpoint of step ", data.step, " was not saved: ", e.what(),
                        "; of the whole checkpoint ", written, " of ", needed, " bytes were written, ",
                        needed - written, " are missing; earlier checkpoints are untouched"));
    }
    sync_folder(dir_);
    point("after_rename");
    write_pointer("latest", data.step);
    // Also when a process died between saving its best step and pointing at it.
    if (best_ && pointer("best") != best_) write_pointer("best", *best_);
    sync_folder(dir_);
    point("before_delete");
    remove_old(data.step);
    damaged_.clear();
}

// The newest `keep` up to the one just saved stay, and the best; so do later steps, unless find_resume found
// them damaged.
void Checkpoints::remove_old(int64_t newest) const {
    std::vector<int64_t> old, doomed;
    for (int64_t step : steps()) {
        bool damaged = std::find(damaged_.begin(), damaged_.end(), step) != damaged_.end() && step != newest;
        if (damaged)
            doomed.push_back(step);
        else if (step <= newest)
            old.push_back(step);
    }
    if (static_cast<int64_t>(old.size()) > keep_) doomed.insert(doomed.end(), old.begin(), old.end() - keep_);
    for (int64_t step : doomed)
        if (step != best_) retire(folder_of(step));
    if (!doomed.empty()) sync_folder(dir_);
}

// Temporary folders of a process that died; the run's lock says that none is in use.
void Checkpoints::remove_leftovers() const {
    std::vector<std::string> leftovers;
    for (const auto& entry : fs::directory_iterator(dir_)) {
        std::string name = entry.path().filename().string();
        size_t mark = name.find(temporary_mark);
        if (mark != std::string::npos && step_of(name.substr(0, mark)))
            leftovers.push_back(entry.path().string());
    }
    for (const auto& folder : leftovers) remove_folder(folder);
}

Checkpoints::Found Checkpoints::find_resume() {
    std::vector<std::string> messages;
    damaged_.clear();
    for (const char* name : {"latest", "best"})
        if (fs::exists(dir_ + "/" + name)) {
            auto step = pointer(name);
            if (!step || !fs::is_directory(folder_of(*step)))
                messages.push_back(cat(dir_, "/", name, ": the pointer is stale: it names ",
                                       step ? cat(step_prefix, *step, ", which is absent") : "no step"));
        }
    std::vector<int64_t> all = steps();
    for (auto it = all.rbegin(); it != all.rend(); ++it) {
        try {
            CheckpointReader reader(folder_of(*it));
            if (reader.step() != *it) refuse(reader.folder(), ": its manifest is of step ", reader.step());
            best_ = reader.best();
            if (best_ && !fs::is_directory(folder_of(*best_))) best_.reset();
            return {std::move(reader), std::move(messages)};
        } catch (const Error& e) {
            if (e.fault() != Fault::user) throw;
            damaged_.push_back(*it);
            messages.push_back(cat(step_prefix, *it, " skipped: ", e.what()));
        }
    }
    refuse(
        dir_, ": no complete checkpoint to resume from",
        messages.empty() ? std::string(" (there is none at all)") : " (" + text::join(messages, "; ") + ")",
        "; --overwrite starts the run anew");
}

}  // namespace fp8rl::run
