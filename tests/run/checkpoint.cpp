// Checkpoints: field case f12's folder states, what is kept and what is removed, and every way a checkpoint
// can be damaged. Killing and full disks are in checkpoint_faults.cpp.
#include "run/checkpoint.h"

#include <unistd.h>

#include <cstdlib>
#include <set>

#include "run/digest.h"
#include "support.h"

using namespace fp8rl;
using namespace fp8rl::run;
using namespace fp8rl::run::test;

namespace {

void save(Checkpoints& c, int64_t step, bool best = false) { c.save(Small(step).data, best); }

void flip(const std::string& path, uint64_t at) {
    std::fstream f(path, std::ios::binary | std::ios::in | std::ios::out);
    f.seekg(static_cast<std::streamoff>(at));
    char c = static_cast<char>(f.get() ^ 0x10);
    f.seekp(static_cast<std::streamoff>(at));
    f.put(c);
}

void cut(const std::string& path) { fs::resize_file(path, fs::file_size(path) / 2); }

std::set<std::string> names_in(const std::string& folder) {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename().string());
    return names;
}

// Puts one entry of a folder state of f12 on disk.
void build(Checkpoints& c, const std::string& dir, const std::string& key, const std::string& what) {
    const std::string path = dir + "/" + key;
    if (key == "latest") {
        write_file(path, "step_20\n");
        return;
    }
    if (what == "any content") {
        fs::create_directories(path);
        write_file(path + "/weights.safetensors", "anything");
        return;
    }
    save(c, std::stoll(key.substr(5)));
    if (what == "complete") return;
    if (what == "weights present, optimizer file cut short")
        cut(path + "/optimizer.safetensors");
    else if (what == "one byte in the middle of the weights changed")
        flip(path + "/weights.safetensors", fs::file_size(path + "/weights.safetensors") / 2);
    else if (what == "cut short")
        for (const auto& name : names_in(path)) cut(path + "/" + name);
    else
        FAIL("f12 has a new state: " << what);
}

}  // namespace

TEST_CASE("XXH64 gives the values of libxxhash 0.8.1") {
    const std::pair<size_t, uint64_t> expected[] = {
        {0, 0xef46db3751d8e999},  {1, 0x1f25c8d0bc1f4bb6},   {3, 0x31d2363f52e564c9},
        {4, 0x9bb64b7d66ee9fda},  {7, 0x9a7b149959ce60d8},   {8, 0xdab99d95c6f90092},
        {12, 0xd52e407833af5133}, {31, 0xa2aa5f33cc4a6119},  {32, 0x23c3c17ef790fd97},
        {33, 0x50a7cfc7ba588784}, {47, 0xa7c5465cc5ad205e},  {63, 0x5e3e54b431c7493c},
        {64, 0x0eb64b3ef6eeb01f}, {100, 0xa61f8d4c170fe531}, {1000, 0x5f235fa033f1a3fb}};
    for (auto [n, digest] : expected) {
        std::string s;
        for (size_t i = 0; i < n; ++i) s += static_cast<char>((i * 7 + 3) % 256);
        CHECK(xxh64(s) == digest);
    }
    CHECK(xxh64("abc") == 0x44bc2cf5ad770999);
    CHECK(hex16(0x00bc2cf5ad770999) == "00bc2cf5ad770999");
}

TEST_CASE("a file's digest is that of its bytes, also where its pages are given back on the way") {
    std::string bytes((size_t{64} << 20) * 2 + 12345, '\0');
    for (size_t i = 0; i < bytes.size(); i += 997) bytes[i] = static_cast<char>(i / 997);
    char path[] = "/tmp/fp8rl_digest_XXXXXX";
    const int fd = mkstemp(path);
    REQUIRE(fd >= 0);
    REQUIRE(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    close(fd);
    MappedFile file(path);
    CHECK(xxh64(file) == xxh64(bytes));
    CHECK(xxh64(file) == xxh64(file.text()));  // the pages are as before
    unlink(path);
}

TEST_CASE("f12: every folder state resumes from the checkpoint of the field case, and says why") {
    const auto file = fp8rl::test::read_json("f12_checkpoint_states.json");
    int states = 0;
    for (const auto& state : file.at("folder_states")) {
        INFO(state.dump());
        TempFolder folder;
        Checkpoints c(folder.path(), 10);
        for (const auto& [key, value] : state.items())
            if (key.rfind("step_", 0) == 0) build(c, folder / "checkpoints", key, value);
        fs::remove(folder / "checkpoints/latest");
        if (state.contains("latest")) build(c, folder / "checkpoints", "latest", state["latest"]);
        ++states;

        Checkpoints fresh(folder.path(), 10);
        if (state["resume_from"].is_null()) {
            std::string message = refusal([&] { fresh.find_resume(); });
            CHECK(holds(message, "no complete checkpoint"));
            CHECK(holds(message, "step_10 skipped"));
            continue;
        }
        Checkpoints::Found found = fresh.find_resume();
        CHECK(found.reader.step() == state["resume_from"]);
        CHECK(is_small(found.reader));
        const std::string name = state["name"];
        const std::string said = found.messages.empty() ? "" : found.messages.front();
        CHECK(found.messages.size() == (state.contains("say") ? 1 : 0));
        if (name == "newest_half_written")
            CHECK((holds(said, "step_20 skipped") && holds(said, "cut short")));
        if (name == "pointer_dangles") CHECK((holds(said, "latest") && holds(said, "pointer is stale")));
        if (name == "one_byte_flipped") CHECK((holds(said, "step_20") && holds(said, "checksum differs")));
    }
    CHECK(states == 7);
}

TEST_CASE("a checkpoint gives back every byte, its state and its recipe") {
    TempFolder folder;
    Checkpoints c(folder.path(), 1);
    save(c, 5);
    CheckpointReader reader(c.folder_of(5));
    CHECK(reader.step() == 5);
    CHECK(!reader.best());
    CHECK(is_small(reader));
    CHECK(reader.has_file("optimizer.safetensors"));
    CHECK(!reader.has_file("reference.safetensors"));
    CHECK(names_in(c.folder_of(5)) == std::set<std::string>{"weights.safetensors", "optimizer.safetensors",
                                                            "state.json", "recipe.yaml", "manifest.json"});
}

TEST_CASE("a tensor that is absent, of another shape or dtype, or never read is refused by name") {
    TempFolder folder;
    Checkpoints c(folder.path(), 1);
    save(c, 5);
    CheckpointReader reader(c.folder_of(5));
    std::vector<float> room(64 * 16);
    const std::string w = "weights.safetensors";
    Tensor good(room.data(), DType::f32, {64, 16});
    CHECK(holds(refusal([&] { reader.read(w, "model.c", good); }), "model.c"));
    CHECK(holds(refusal([&] {
                    reader.read(w, "model.a", good.reshaped({16, 64}));
                }),
                "tensor model.a: [64, 16] f32 in the file, [16, 64] f32 needed"));
    CHECK(holds(refusal([&] {
                    reader.read(w, "model.a", Tensor(room.data(), DType::i32, {64, 16}));
                }),
                "[64, 16] i32 needed"));
    CHECK(holds(refusal([&] { reader.read("other.safetensors", "model.a", good); }),
                "holds no other.safetensors"));
    reader.read(w, "model.a", good);
    CHECK(holds(refusal([&] { reader.require_all_read(w); }), "model.b"));
}

TEST_CASE("one changed byte anywhere is found, or changes nothing that is read") {
    TempFolder folder;
    Checkpoints c(folder.path(), 1);
    c.save(Small(5, 2).data);
    int found = 0, harmless = 0;
    for (const auto& name : names_in(c.folder_of(5))) {
        const std::string path = c.folder_of(5) + "/" + name;
        for (uint64_t at = 0; at < fs::file_size(path); ++at) {
            flip(path, at);
            std::string message = refusal([&] {
                CheckpointReader reader(c.folder_of(5));
                if (reader.step() != 5 || !is_small(reader, 2)) throw std::runtime_error("damage was read");
            });
            message.empty() ? ++harmless : ++found;
            if (message.empty()) REQUIRE(name == "manifest.json");
            flip(path, at);
        }
    }
    CHECK(found > 1000);
    CHECK(harmless < 200);  // blanks between the manifest's members
}

TEST_CASE("each file that is missing, cut or too long is named") {
    for (const std::string name :
         {"weights.safetensors", "optimizer.safetensors", "state.json", "recipe.yaml", "manifest.json"}) {
        TempFolder folder;
        Checkpoints c(folder.path(), 1);
        save(c, 5);
        const std::string path = c.folder_of(5) + "/" + name;
        const std::string whole = fp8rl::test::read_text(path);
        auto message = [&] { return refusal([&] { CheckpointReader reader(c.folder_of(5)); }); };
        write_file(path, whole.substr(0, whole.size() - 4));
        CHECK(holds(message(), name));
        write_file(path, whole + "x");
        CHECK(holds(message(), name));
        write_file(path, "");
        CHECK(holds(message(), name));
        fs::remove(path);
        CHECK(holds(message(), name));
    }
}

TEST_CASE("the newest ones are kept in numeric order, and the best beside them") {
    TempFolder folder;
    Checkpoints c(folder.path(), 2);
    save(c, 8);
    save(c, 9, true);
    save(c, 10);
    save(c, 11);
    save(c, 100);
    CHECK(c.steps() == std::vector<int64_t>{9, 11, 100});
    CHECK(c.best() == 9);
    save(c, 101, true);
    CHECK(c.steps() == std::vector<int64_t>{100, 101});
    save(c, 102);
    save(c, 103);
    CHECK(c.steps() == std::vector<int64_t>{101, 102, 103});
    CHECK(c.best() == 101);
    CHECK(fp8rl::test::read_text(folder / "checkpoints/latest") == "step_103\n");
    CHECK(names_in(folder / "checkpoints") ==
          std::set<std::string>{"step_101", "step_102", "step_103", "latest", "best"});
    CHECK(holds(refusal([&] { Checkpoints(folder.path(), 0); }), "checkpoint.keep: 0"));
}

TEST_CASE("a resumed run knows the best checkpoint and keeps it, whatever the pointer file says") {
    TempFolder folder;
    {
        Checkpoints c(folder.path(), 1);
        save(c, 1, true);
        save(c, 2);
    }
    fs::remove(folder / "checkpoints/best");
    Checkpoints c(folder.path(), 1);
    CHECK(c.find_resume().reader.best() == 1);
    save(c, 3);
    CHECK(c.steps() == std::vector<int64_t>{1, 3});
}

TEST_CASE("saving a step again replaces it, damaged or not") {
    TempFolder folder;
    Checkpoints c(folder.path(), 3);
    save(c, 1);
    save(c, 2);
    Small other(7);
    other.data.step = 2;
    c.save(other.data);
    CHECK(CheckpointReader(c.folder_of(2)).state() == other.data.state);
    cut(c.folder_of(2) + "/weights.safetensors");
    save(c, 2);
    CHECK(c.find_resume().reader.step() == 2);
    CHECK(names_in(folder / "checkpoints") == std::set<std::string>{"step_1", "step_2", "latest"});
}

TEST_CASE("damaged checkpoints found on resume never push out good ones, and go with the next save") {
    TempFolder folder;
    Checkpoints c(folder.path(), 3);
    for (int64_t s : {10, 20, 30}) save(c, s);
    flip(c.folder_of(20) + "/weights.safetensors", 500);
    flip(c.folder_of(30) + "/weights.safetensors", 500);
    Checkpoints next(folder.path(), 1);
    CHECK(next.find_resume().reader.step() == 10);
    CHECK(next.steps() == std::vector<int64_t>{10, 20, 30});
    save(next, 15);
    CHECK(next.steps() == std::vector<int64_t>{15});
}

TEST_CASE("an empty run has nothing to resume, and says so") {
    TempFolder folder;
    Checkpoints c(folder.path(), 1);
    CHECK(c.steps().empty());
    CHECK(!c.best());
    CHECK(holds(refusal([&] { c.find_resume(); }), "there is none at all"));
}
