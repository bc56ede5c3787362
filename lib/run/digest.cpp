#include "run/digest.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace fp8rl::run {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as little-endian");

constexpr uint64_t p1 = 0x9E3779B185EBCA87, p2 = 0xC2B2AE3D27D4EB4F, p3 = 0x165667B19E3779F9,
                   p4 = 0x85EBCA77C2B2AE63, p5 = 0x27D4EB2F165667C5;

template <class T>
T load(const unsigned char* p) {
    T x;
    std::memcpy(&x, p, sizeof x);
    return x;
}

uint64_t round(uint64_t lane, uint64_t word) { return std::rotl(lane + word * p2, 31) * p1; }
uint64_t merge(uint64_t h, uint64_t lane) { return (h ^ round(0, lane)) * p1 + p4; }

}  // namespace

static uint64_t digest(const void* data, size_t bytes, bool mapped) {
    auto* p = static_cast<const unsigned char*>(data);
    size_t left = bytes;
    uint64_t h = p5;
    if (left >= 32) {
        uint64_t a = p1 + p2, b = p2, c = 0, d = 0 - p1;
        constexpr size_t window = size_t{64} << 20;
        while (left >= 32) {
            const auto* begin = p;
            const size_t block = std::min(left / 32 * 32, window);
            for (const auto* end = p + block; p != end; p += 32) {
                a = round(a, load<uint64_t>(p));
                b = round(b, load<uint64_t>(p + 8));
                c = round(c, load<uint64_t>(p + 16));
                d = round(d, load<uint64_t>(p + 24));
            }
            left -= block;
            // Pages of a file come back when they are read again; without this a checkpoint would count as
            // memory of the run.
            if (mapped && block == window) madvise(const_cast<unsigned char*>(begin), window, MADV_DONTNEED);
        }
        h = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
        for (uint64_t lane : {a, b, c, d}) h = merge(h, lane);
    }
    h += bytes;
    for (; left >= 8; p += 8, left -= 8) h = std::rotl(h ^ round(0, load<uint64_t>(p)), 27) * p1 + p4;
    for (; left >= 4; p += 4, left -= 4) h = std::rotl(h ^ load<uint32_t>(p) * p1, 23) * p2 + p3;
    for (; left; ++p, --left) h = std::rotl(h ^ *p * p5, 11) * p1;
    h = (h ^ h >> 33) * p2;
    h = (h ^ h >> 29) * p3;
    return h ^ h >> 32;
}

uint64_t xxh64(const void* data, size_t bytes) { return digest(data, bytes, false); }
uint64_t xxh64(const MappedFile& file) { return digest(file.data(), file.size(), true); }

std::string hex16(uint64_t digest) {
    std::string s(16, '0');
    for (int i = 15; i >= 0; --i, digest >>= 4) s[static_cast<size_t>(i)] = "0123456789abcdef"[digest & 15];
    return s;
}

}  // namespace fp8rl::run
