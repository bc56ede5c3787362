#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/text.h"
#include "io/gguf_types.h"

namespace fp8rl {

static_assert(std::endian::native == std::endian::little,
              "GGUF and safetensors files are read as little-endian");

enum ValueKind : uint32_t {
    value_u8,
    value_i8,
    value_u16,
    value_i16,
    value_u32,
    value_i32,
    value_f32,
    value_bool,
    value_string,
    value_array,
    value_u64,
    value_i64,
    value_f64,
    value_kinds
};

// Bytes of a fixed-size value; 0: strings and arrays.
static uint64_t value_bytes(uint32_t kind) {
    static constexpr uint8_t bytes[value_kinds] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return bytes[kind];
}

static constexpr const char* value_names[value_kinds] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                         "int32",  "float32", "bool",   "string", "array",
                                                         "uint64", "int64",   "float64"};

static bool is_integer(uint32_t kind) { return kind <= value_i32 || kind == value_u64 || kind == value_i64; }

template <class T>
static T load(const uint8_t* p) {
    T v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

static int64_t load_integer(const std::string& where, uint32_t kind, const uint8_t* p) {
    switch (kind) {
        case value_u8: return load<uint8_t>(p);
        case value_i8: return load<int8_t>(p);
        case value_u16: return load<uint16_t>(p);
        case value_i16: return load<int16_t>(p);
        case value_u32: return load<uint32_t>(p);
        case value_i32: return load<int32_t>(p);
        case value_i64: return load<int64_t>(p);
        case value_u64: {
            auto n = load<uint64_t>(p);
            if (n > static_cast<uint64_t>(INT64_MAX)) refuse(where, ": ", n, " is too large");
            return static_cast<int64_t>(n);
        }
    }
    defect("gguf: kind ", kind, " is no integer");
}

// A reading position; every step is checked against the end of the file.
class GgufFile::Cursor {
  public:
    explicit Cursor(const MappedFile& f) : file_(f) {}

    const uint8_t* take(uint64_t bytes, const char* what) {
        if (bytes > file_.size() - at_)
            refuse(file_.path(), ": ends inside ", what, " (", bytes, " bytes needed at offset ", at_, ", ",
                   file_.size() - at_, " there)");
        const uint8_t* p = file_.data() + at_;
        at_ += bytes;
        return p;
    }
    uint32_t u32(const char* what) { return load<uint32_t>(take(4, what)); }
    uint64_t u64(const char* what) { return load<uint64_t>(take(8, what)); }
    std::string_view string(const char* what) {
        uint64_t n = u64(what);
        const uint8_t* p = take(n, what);
        return {reinterpret_cast<const char*>(p), n};
    }
    // A count of things that take at least `least` bytes each, so that a lie cannot make us allocate.
    uint64_t count(uint64_t n, uint64_t least, const char* what) const {
        if (n > (file_.size() - at_) / least)
            refuse(file_.path(), ": ", n, " ", what, " cannot fit in ", file_.size(), " bytes");
        return n;
    }
    void skip_value(std::string_view key, uint32_t kind) {
        if (kind >= value_kinds || kind == value_array)
            refuse(file_.path(), ": ", text::valid_utf8(key), ": ",
                   kind == value_array ? std::string("arrays of arrays are not supported")
                                       : cat("unknown value type ", kind));
        if (kind == value_string)
            string("a metadata string");
        else
            take(value_bytes(kind), "a metadata value");
    }
    uint64_t at() const { return at_; }

  private:
    const MappedFile& file_;
    uint64_t at_ = 0;
};

GgufFile::GgufFile(const std::string& path) : GgufFile(MappedFile(path)) {}

GgufFile GgufFile::from_memory(std::string bytes, std::string name) {
    return GgufFile(MappedFile::from_memory(std::move(bytes), std::move(name)));
}

GgufFile::GgufFile(MappedFile file) : file_(std::move(file)) {
    const std::string& path = file_.path();
    Cursor c(file_);
    if (file_.size() < 4 || std::memcmp(file_.data(), "GGUF", 4) != 0)
        refuse(path, ": is not a GGUF file (it does not start with \"GGUF\")");
    c.take(4, "the magic");
    version_ = c.u32("the version");
    if (version_ != 2 && version_ != 3)
        refuse(path, ": GGUF version ", version_, version_ & 0xFFFF ? "" : " (a big-endian file?)",
               "; versions 2 and 3 are supported");
    uint64_t tensors = c.u64("the tensor count"), entries = c.u64("the metadata count");
    c.count(entries, 8 + 4 + 1, "metadata entries");
    c.count(tensors, 8 + 4 + 4 + 8, "tensors");

    entries_.reserve(entries);
    for (uint64_t i = 0; i < entries; ++i) {
        Entry e;
        e.key = c.string("a metadata key");
        e.kind = c.u32("a metadata type");
        if (e.kind == value_array) {
            e.element = c.u32("an array's type");
            uint64_t n = c.u64("an array's length");
            bool fixed = e.element < value_kinds && value_bytes(e.element);
            e.count = c.count(n, fixed ? value_bytes(e.element) : 8, "array elements");
            e.offset = c.at();
            if (fixed)
                c.take(e.count * value_bytes(e.element), "a metadata array");
            else
                for (uint64_t k = 0; k < e.count; ++k) c.skip_value(e.key, e.element);
        } else {
            e.offset = c.at();
            c.skip_value(e.key, e.kind);
        }
        if (!entry_index_.emplace(e.key, entries_.size()).second)
            refuse(path, ": the metadata key ", text::valid_utf8(e.key), " stands there twice");
        entries_.push_back(e);
    }

    int64_t alignment = integer_or("general.alignment", 32);
    if (alignment < 8 || alignment > (1 << 20) || !std::has_single_bit(static_cast<uint64_t>(alignment)))
        refuse(path, ": general.alignment: ", alignment, " is not a power of two from 8 to 1048576");

    tensors_.reserve(tensors);
    for (uint64_t i = 0; i < tensors; ++i) {
        GgufTensor t;
        t.name = std::string(c.string("a tensor's name"));
        uint32_t rank = c.u32("a tensor's rank");
        if (rank > 4) refuse(path, ": tensor ", t.name, ": rank ", rank, "; at most 4 is allowed");
        t.shape.resize(rank);
        uint64_t size = 1;
        for (uint32_t k = 0; k < rank; ++k) {
            uint64_t n = c.u64("a tensor's shape");
            if (n == 0 || n > static_cast<uint64_t>(INT64_MAX) / size)
                refuse(path, ": tensor ", t.name, ": dimension ", k, " is ", n);
            size *= n;
            t.shape[rank - 1 - k] = static_cast<int64_t>(n);
        }
        t.type = c.u32("a tensor's type");
        t.offset = c.u64("a tensor's offset");
        const GgmlType* type = ggml_type(t.type);
        if (!type) refuse(path, ": tensor ", t.name, ": unknown ggml type ", t.type);
        if (t.cols() % type->block)
            refuse(path, ": tensor ", t.name, ": ", t.cols(), " columns are not a multiple of the ",
                   type->block, "-element block of ", type->name);
        uint64_t blocks = size / static_cast<uint64_t>(type->block);
        if (blocks > file_.size() / type->bytes)
            refuse(path, ": tensor ", t.name, ": ", size, " elements of ", type->name,
                   " are more than the file's ", file_.size(), " bytes");
        t.bytes = blocks * type->bytes;
        if (!tensor_index_.emplace(t.name, tensors_.size()).second)
            refuse(path, ": the tensor ", t.name, " stands there twice");
        tensors_.push_back(std::move(t));
    }

    auto align = static_cast<uint64_t>(alignment);
    uint64_t data = (c.at() + align - 1) / align * align;
    std::vector<const GgufTensor*> order;
    for (GgufTensor& t : tensors_) {
        if (t.offset % align)
            refuse(path, ": tensor ", t.name, ": offset ", t.offset, " is not a multiple of ", align);
        if (data > file_.size() || t.offset > file_.size() - data || t.bytes > file_.size() - data - t.offset)
            refuse(path, ": tensor ", t.name, ": its ", t.bytes, " bytes at offset ", t.offset,
                   " of the data reach past the end of the file (", file_.size(), " bytes)");
        t.offset += data;
        order.push_back(&t);
    }
    std::sort(order.begin(), order.end(), [](auto* a, auto* b) { return a->offset < b->offset; });
    for (size_t i = 1; i < order.size(); ++i)
        if (order[i - 1]->offset + order[i - 1]->bytes > order[i]->offset)
            refuse(path, ": the tensors ", order[i - 1]->name, " and ", order[i]->name, " overlap");
}

const GgufFile::Entry* GgufFile::find_entry(std::string_view key) const {
    auto it = entry_index_.find(key);
    return it == entry_index_.end() ? nullptr : &entries_[it->second];
}

const GgufFile::Entry& GgufFile::entry(std::string_view key) const {
    if (const Entry* e = find_entry(key)) return *e;
    refuse(path(), ": the metadata key ", key, " is missing");
}

void GgufFile::wrong_kind(const Entry& e, const char* needed) const {
    std::string found = value_names[e.kind];
    if (e.kind == value_array) found = cat("an array of ", value_names[e.element]);
    refuse(path(), ": ", text::valid_utf8(e.key), ": ", needed, " is needed, found ", found);
}

const GgufFile::Entry& GgufFile::array(std::string_view key, const char* needed) const {
    const Entry& e = entry(key);
    if (e.kind != value_array) wrong_kind(e, needed);
    return e;
}

std::vector<std::string> GgufFile::keys() const {
    std::vector<std::string> out;
    for (const Entry& e : entries_) out.emplace_back(e.key);
    return out;
}

int64_t GgufFile::integer(std::string_view key) const {
    const Entry& e = entry(key);
    if (!is_integer(e.kind)) wrong_kind(e, "an integer");
    return load_integer(cat(path(), ": ", key), e.kind, file_.data() + e.offset);
}

double GgufFile::number(std::string_view key) const {
    const Entry& e = entry(key);
    if (e.kind == value_f32) return load<float>(file_.data() + e.offset);
    if (e.kind == value_f64) return load<double>(file_.data() + e.offset);
    if (!is_integer(e.kind)) wrong_kind(e, "a number");
    return static_cast<double>(integer(key));
}

bool GgufFile::boolean(std::string_view key) const {
    const Entry& e = entry(key);
    if (e.kind != value_bool) wrong_kind(e, "a bool");
    return file_.data()[e.offset] != 0;
}

std::string GgufFile::string(std::string_view key) const {
    const Entry& e = entry(key);
    if (e.kind != value_string) wrong_kind(e, "a string");
    const uint8_t* p = file_.data() + e.offset;
    return std::string(reinterpret_cast<const char*>(p + 8), load<uint64_t>(p));
}

int64_t GgufFile::integer_or(std::string_view key, int64_t fallback) const {
    return has(key) ? integer(key) : fallback;
}
double GgufFile::number_or(std::string_view key, double fallback) const {
    return has(key) ? number(key) : fallback;
}
bool GgufFile::boolean_or(std::string_view key, bool fallback) const {
    return has(key) ? boolean(key) : fallback;
}
std::string GgufFile::string_or(std::string_view key, const std::string& fallback) const {
    return has(key) ? string(key) : fallback;
}

std::vector<std::string_view> GgufFile::strings(std::string_view key) const {
    const Entry& e = array(key, "an array of strings");
    if (e.element != value_string) wrong_kind(e, "an array of strings");
    std::vector<std::string_view> out;
    out.reserve(e.count);
    const uint8_t* p = file_.data() + e.offset;
    for (uint64_t i = 0; i < e.count; ++i) {
        auto n = load<uint64_t>(p);
        out.emplace_back(reinterpret_cast<const char*>(p + 8), n);
        p += 8 + n;
    }
    return out;
}

std::vector<int64_t> GgufFile::integers(std::string_view key) const {
    const Entry& e = array(key, "an array of integers");
    if (!is_integer(e.element)) wrong_kind(e, "an array of integers");
    std::vector<int64_t> out(e.count);
    const std::string where = cat(path(), ": ", key);
    for (uint64_t i = 0; i < e.count; ++i)
        out[i] = load_integer(where, e.element, file_.data() + e.offset + i * value_bytes(e.element));
    return out;
}

std::vector<double> GgufFile::numbers(std::string_view key) const {
    const Entry& e = array(key, "an array of numbers");
    std::vector<double> out(e.count);
    if (is_integer(e.element)) {
        std::vector<int64_t> n = integers(key);
        std::copy(n.begin(), n.end(), out.begin());
        return out;
    }
    if (e.element != value_f32 && e.element != value_f64) wrong_kind(e, "an array of numbers");
    for (uint64_t i = 0; i < e.count; ++i) {
        const uint8_t* p = file_.data() + e.offset + i * value_bytes(e.element);
        out[i] = e.element == value_f32 ? static_cast<double>(load<float>(p)) : load<double>(p);
    }
    return out;
}

std::string GgufFile::describe(std::string_view key) const {
    const Entry& e = entry(key);
    std::string value;
    if (e.kind == value_array)
        value = cat(e.count, " x ", value_names[e.element]);
    else if (e.kind == value_bool)
        value = boolean(key) ? "true" : "false";
    else if (e.kind == value_string)
        value = string(key);
    else
        value = is_integer(e.kind) ? cat(integer(key)) : cat(number(key));
    constexpr size_t shown = 80;
    if (value.size() > shown) value = value.substr(0, shown) + "...";
    std::replace(value.begin(), value.end(), '\n', ' ');
    return cat(key, " = ", text::valid_utf8(value));
}

const GgufTensor* GgufFile::find(std::string_view name) const {
    auto it = tensor_index_.find(std::string(name));
    return it == tensor_index_.end() ? nullptr : &tensors_[it->second];
}

const GgufTensor& GgufFile::tensor(std::string_view name) const {
    if (const GgufTensor* t = find(name)) return *t;
    refuse(path(), ": the tensor ", name, " is missing");
}

}  // namespace fp8rl
