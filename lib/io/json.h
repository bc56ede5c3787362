// io/json: a JSON value that any room may hold (the JSON library stays inside json.cpp). Objects keep the
// order of the file. Each value remembers where it came from, so a wrong kind or a missing key is refused
// with the source and the whole key path ("config.json: rope_scaling.factor: a number is needed, found a
// string"). Refused when reading: bad syntax (with its line), ill-formed UTF-8, duplicate keys, more than 100
// levels.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace fp8rl {

class Json {
  public:
    enum class Kind : uint8_t { null, boolean, integer, number, string, array, object };
    using Items = std::vector<Json>;
    using Members = std::vector<std::pair<std::string, Json>>;
    static constexpr int max_depth = 100;

    Json() = default;  // null
    Json(std::nullptr_t) {}
    Json(bool b) : value_(b) {}
    Json(int n) : value_(int64_t{n}) {}
    Json(int64_t n) : value_(n) {}
    Json(double x) : value_(x) {}
    Json(const char* s) : value_(std::string(s)) {}
    Json(std::string s) : value_(std::move(s)) {}
    Json(std::string_view s) : value_(std::string(s)) {}
    static Json array(Items items = {});
    static Json object(Members members = {});

    // `source` names the text in messages; `first_line` is the line it starts at (0: `source` says it
    // already).
    static Json parse(std::string_view text, const std::string& source, int64_t first_line = 1);
    static Json parse_file(const std::string& path);

    Kind kind() const { return static_cast<Kind>(value_.index()); }
    bool is_null() const { return kind() == Kind::null; }
    bool is_bool() const { return kind() == Kind::boolean; }
    bool is_integer() const { return kind() == Kind::integer; }
    bool is_number() const { return kind() == Kind::integer || kind() == Kind::number; }
    bool is_string() const { return kind() == Kind::string; }
    bool is_array() const { return kind() == Kind::array; }
    bool is_object() const { return kind() == Kind::object; }

    // The value as one kind; another kind is refused.
    bool as_bool() const;
    int64_t as_integer() const;  // also a number without a fraction, such as 1e3
    double as_number() const;    // also an integer
    const std::string& as_string() const;
    const Items& items() const;      // of an array
    const Members& members() const;  // of an object, in file order
    size_t size() const;             // of an array or object

    const Json* find(std::string_view key) const;  // nullptr: absent. Refused when this is no object
    bool has(std::string_view key) const;          // present and not null
    const Json& at(std::string_view key) const;    // refused when absent
    const Json& at(size_t index) const;
    const Json& operator[](std::string_view key) const { return at(key); }
    const Json& operator[](const char* key) const { return at(std::string_view(key)); }
    const Json& operator[](size_t index) const { return at(index); }
    const Json& operator[](int index) const { return at(static_cast<size_t>(index)); }

    // `fallback` when the key is absent or null.
    bool bool_or(std::string_view key, bool fallback) const;
    int64_t integer_or(std::string_view key, int64_t fallback) const;
    double number_or(std::string_view key, double fallback) const;
    std::string string_or(std::string_view key, const std::string& fallback) const;

    // Building. set() replaces; null turns into an object or array by itself.
    Json& set(std::string key, Json value);
    Json& push(Json value);

    // One line; numbers in the shortest form that reads back the same, Inf and NaN as null, ill-formed UTF-8
    // as U+FFFD. indent > 0: one member per line.
    std::string dump(int indent = 0) const;
    // Where the value came from: "config.json: rope_scaling.factor", or "json" when built by hand.
    std::string where() const;

    bool operator==(const Json& other) const { return value_ == other.value_; }

  private:
    friend class JsonBuilder;
    struct Origin;
    void write(std::string& out, int indent, int level) const;
    [[noreturn]] void wrong_kind(const char* needed) const;

    std::variant<std::monostate, bool, int64_t, double, std::string, Items, Members> value_;
    std::shared_ptr<const Origin> origin_;
};

const char* name_of(Json::Kind kind);

}  // namespace fp8rl
