// recipe/codec: how each type of field reads a value and writes it back. A codec has `type()` for the
// documentation, `read(value)` (throws Mismatch with what is allowed) and `write(x)` (YAML that reads back to
// x). The type of the field decides, never YAML: `no` is a word for a text field and an error with a hint for
// a boolean.
#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "recipe/value.h"

namespace fp8rl::recipe {

struct Mismatch {
    std::string message;
};

std::string quote(const std::string& text);  // "..." with escapes
std::string number_text(double x);           // shortest that reads back
std::string describe(const Value& v);        // 'fast', a list, nothing: for messages

struct Number {
    double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
    bool low_open = false, high_open = false;  // the limit itself is not allowed
    using Type = double;
    std::string type() const;
    double read(const Value& v) const;
    std::string write(double x) const { return number_text(x); }
};

// Any numeral whose value is whole: 1000, 1e3, 010 (ten).
struct Integer {
    int64_t low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max();
    using Type = int64_t;
    std::string type() const;
    int64_t read(const Value& v) const;
    std::string write(int64_t x) const { return std::to_string(x); }
};

struct Boolean {
    using Type = bool;
    std::string type() const { return "true or false"; }
    bool read(const Value& v) const;
    std::string write(bool x) const { return x ? "true" : "false"; }
};

struct Text {
    bool may_be_empty = true;
    using Type = std::string;
    std::string type() const { return "text"; }
    std::string read(const Value& v) const;
    std::string write(const std::string& x) const { return quote(x); }
};

// Seconds: 90, 90s, 5m, 1h30m, 2d, 1:30:00, 5:00.
struct Duration {
    using Type = double;
    std::string type() const { return "duration (90s, 5m, 1h30m, 1:30:00)"; }
    double read(const Value& v) const;
    std::string write(double x) const { return number_text(x) + "s"; }
};

// Bytes: 4GiB, 512MiB, 100MB, 1e9.
struct Bytes {
    using Type = int64_t;
    std::string type() const { return "bytes (512MiB, 4GiB)"; }
    int64_t read(const Value& v) const;
    std::string write(int64_t x) const { return std::to_string(x); }
};

std::string one_of(const std::vector<std::string>& words);
size_t read_choice(const Value& v, const std::vector<std::string>& words);

// Words in the order of the enum's values.
template <class E>
struct Choice {
    std::vector<std::string> words;
    using Type = E;
    std::string type() const { return one_of(words); }
    E read(const Value& v) const { return static_cast<E>(read_choice(v, words)); }
    std::string write(E x) const { return words.at(static_cast<size_t>(x)); }
};

template <class Codec>
struct ListOf {
    Codec item;
    size_t least = 0;
    using Type = std::vector<typename Codec::Type>;
    std::string type() const { return cat("list of ", item.type()); }
    Type read(const Value& v) const {
        if (v.kind != Value::Kind::list)
            throw Mismatch{"a list is needed, like [a, b]; found " + describe(v)};
        if (v.items.size() < least)
            throw Mismatch{"at least " + std::to_string(least) + " element is needed"};
        Type x;
        for (const auto& i : v.items) x.push_back(item.read(i));
        return x;
    }
    std::string write(const Type& x) const {
        std::string s = "[";
        for (const auto& i : x) s += (s.size() > 1 ? ", " : "") + item.write(i);
        return s + "]";
    }
};

// No value is spelled `auto` or `none`, or left empty.
template <class Codec>
struct Maybe {
    std::string word;
    Codec item;
    using Type = std::optional<typename Codec::Type>;
    std::string type() const { return word + ", or " + item.type(); }
    Type read(const Value& v) const {
        if (v.kind == Value::Kind::null || v.is(word)) return std::nullopt;
        return item.read(v);
    }
    std::string write(const Type& x) const { return x ? item.write(*x) : word; }
};

}  // namespace fp8rl::recipe
