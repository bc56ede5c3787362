// The main of a fuzz target where libFuzzer is not to be had: runs the seeds, then mutations of them, for a
// number of seconds. The mutations are a function of --seed and the run's number, so a failure can be
// repeated; the input that crashed, hung (10 s) or failed a sanitizer is written to crash-<target> in the
// current folder.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Present only when a sanitizer is linked.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*)());

static std::string current;
static std::string crash_path;

static void save_current() {
    int fd = ::open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return;
    bool whole = ::write(fd, current.data(), current.size()) == static_cast<ssize_t>(current.size());
    ::close(fd);
    std::fprintf(stderr, "the input is in %s%s\n", crash_path.c_str(), whole ? "" : " (cut)");
}

static void on_signal(int signal) {
    std::fprintf(stderr, "fuzz: signal %d\n", signal);
    save_current();
    ::_exit(1);
}

static void run(const std::string& input) {
    current = input;
    ::alarm(10);
    // A copy of the exact size, so that a sanitizer sees a read past its end.
    std::vector<uint8_t> bytes(input.begin(), input.end());
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    ::alarm(0);
}

class Mutator {
  public:
    Mutator(uint64_t seed, const std::vector<std::string>& seeds) : random_(seed), seeds_(seeds) {}

    std::string next() {
        std::string s = any_seed();
        for (uint64_t n = 1 + below(6); n; --n) mutate(s);
        if (s.size() > 1u << 16) s.resize(1u << 16);
        return s;
    }

  private:
    uint64_t below(uint64_t n) { return n ? random_() % n : 0; }
    const std::string& any_seed() { return seeds_[below(seeds_.size())]; }

    void mutate(std::string& s) {
        const size_t at = below(s.size() + 1);
        switch (below(9)) {
            case 0:
                if (at < s.size()) s[at] = static_cast<char>(s[at] ^ (1 << below(8)));
                break;
            case 1:
                if (at < s.size()) s[at] = static_cast<char>(below(256));
                break;
            case 2: s.insert(at, 1 + below(8), static_cast<char>(below(256))); break;
            case 3: s.erase(at, 1 + below(16)); break;
            case 4: number(s, at); break;
            case 5: {  // a piece again, once or often
                const std::string piece = s.substr(at, 1 + below(32));
                for (uint64_t n = below(4) ? 1 : 1 + below(200); n; --n) s.insert(at, piece);
                break;
            }
            case 6: {  // a piece of another seed
                const std::string& other = any_seed();
                s.insert(at, other.substr(below(other.size() + 1), 1 + below(64)));
                break;
            }
            case 7: s.resize(at); break;
            case 8: {  // two pieces change places
                const size_t from = below(s.size() + 1);
                const std::string piece = s.substr(from, 1 + below(32));
                s.erase(from, piece.size());
                s.insert(below(s.size() + 1), piece);
                break;
            }
        }
    }

    // A length or an offset that matters, over 4 or 8 bytes.
    void number(std::string& s, size_t at) {
        static constexpr uint64_t values[] = {0,
                                              1,
                                              2,
                                              3,
                                              7,
                                              8,
                                              31,
                                              32,
                                              33,
                                              127,
                                              128,
                                              255,
                                              256,
                                              65535,
                                              65536,
                                              0x7FFFFFFF,
                                              0x80000000,
                                              0xFFFFFFFF,
                                              1u << 30,
                                              uint64_t{1} << 32,
                                              ~uint64_t{0} >> 1,
                                              ~uint64_t{0}};
        uint64_t v = below(3) ? values[below(std::size(values))] : below(2 * s.size() + 1);
        if (below(4) == 0) v = ~v;
        const size_t bytes = below(2) ? 4 : 8;
        for (size_t k = 0; k < bytes && at + k < s.size(); ++k) s[at + k] = static_cast<char>(v >> (8 * k));
    }

    std::mt19937_64 random_;
    const std::vector<std::string>& seeds_;
};

static std::string read(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
}

int main(int argc, char** argv) {
    double seconds = 5;
    uint64_t seed = 1;
    std::vector<std::filesystem::path> files;
    for (int i = 1; i < argc; ++i) {
        const std::string a = argv[i];
        if (a == "--seconds" && i + 1 < argc)
            seconds = std::atof(argv[++i]);
        else if (a == "--seed" && i + 1 < argc)
            seed = std::strtoull(argv[++i], nullptr, 10);
        else if (std::filesystem::is_directory(a))
            for (const auto& entry : std::filesystem::directory_iterator(a)) files.push_back(entry.path());
        else if (std::filesystem::is_regular_file(a))
            files.emplace_back(a);
        else {
            std::fprintf(stderr, "usage: %s [--seconds N] [--seed N] CORPUS_FOLDER_OR_FILE...\n", argv[0]);
            return 2;
        }
    }
    crash_path = "crash-" + std::filesystem::path(argv[0]).filename().string();
    for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM}) {
        // Under a sanitizer its own handlers say more; they end in the callback.
        if (!__sanitizer_set_death_callback || signal == SIGALRM || signal == SIGABRT)
            ::signal(signal, on_signal);
    }
    if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(save_current);

    std::sort(files.begin(), files.end());
    std::vector<std::string> seeds;
    for (const auto& file : files) seeds.push_back(read(file));
    if (seeds.empty()) {
        std::fprintf(stderr, "%s: no seeds\n", argv[0]);
        return 2;
    }
    const auto start = std::chrono::steady_clock::now();
    for (const std::string& s : seeds) run(s);
    Mutator mutator(seed, seeds);
    uint64_t runs = seeds.size();
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
        run(mutator.next());
        ++runs;
    }
    std::printf("%s: %llu inputs from %zu seeds, none failed\n", argv[0],
                static_cast<unsigned long long>(runs), seeds.size());
    return 0;
}
