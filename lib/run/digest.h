// run/digest: XXH64 (Yann Collet's xxHash, 64 bits, seed 0), a fast checksum for files at rest. It finds
// damage, not malice. Definition: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/file.h"

namespace fp8rl::run {

uint64_t xxh64(const void* data, size_t bytes);
inline uint64_t xxh64(std::string_view s) { return xxh64(s.data(), s.size()); }

// Of a whole file, whose pages do not stay in memory.
uint64_t xxh64(const MappedFile& file);

std::string hex16(uint64_t digest);  // 16 lower-case digits

}  // namespace fp8rl::run
