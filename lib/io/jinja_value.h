// io/jinja_value: the values of the template language, with Python's meaning of truth, equality, order and
// text. Containers are shared and never change, so no value can contain itself; nesting is limited to 100
// levels.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/json.h"

namespace fp8rl::jinja {

class Value;
struct List;
struct Dict;
struct Namespace;
struct Loop;

struct Undefined {
    std::string name;
};
struct None {};

class Value {
  public:
    enum class Kind { undefined, none, boolean, integer, number, string, list, dict, space, loop };

    Value() : v_(None{}) {}
    Value(Undefined u) : v_(std::move(u)) {}
    Value(bool b) : v_(b) {}
    Value(int64_t n) : v_(n) {}
    Value(double x) : v_(x) {}
    Value(std::string s) : v_(std::make_shared<const std::string>(std::move(s))) {}
    Value(std::string_view s) : Value(std::string(s)) {}
    Value(const char* s) : Value(std::string(s)) {}
    Value(std::vector<Value> items);
    Value(std::vector<std::pair<std::string, Value>> members);
    Value(std::shared_ptr<Namespace> n) : v_(std::move(n)) {}
    Value(std::shared_ptr<const Loop> l) : v_(std::move(l)) {}
    static Value from(const Json& json);

    Kind kind() const { return static_cast<Kind>(v_.index()); }
    bool is(Kind k) const { return kind() == k; }
    bool is_numeric() const { return is(Kind::integer) || is(Kind::number) || is(Kind::boolean); }
    const std::string& string() const { return *std::get<std::shared_ptr<const std::string>>(v_); }
    const std::vector<Value>& items() const;
    const std::vector<std::pair<std::string, Value>>& members() const;
    Namespace& space() const { return *std::get<std::shared_ptr<Namespace>>(v_); }
    const Loop& loop() const { return *std::get<std::shared_ptr<const Loop>>(v_); }
    const std::string& undefined_name() const { return std::get<Undefined>(v_).name; }
    int64_t integer() const;  // of an integer or a bool
    double number() const;    // of anything numeric
    const Value* member(std::string_view key) const;
    int depth() const;

  private:
    std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const std::string>,
                 std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
                 std::shared_ptr<const Loop>>
        v_;
};

struct List {
    std::vector<Value> items;
    int depth;
};
struct Dict {
    std::vector<std::pair<std::string, Value>> members;
    int depth;
};
struct Namespace {
    std::map<std::string, Value, std::less<>> members;
};
struct Loop {
    std::vector<Value> items;
    size_t index = 0;
    int depth = 1;
};

const char* name_of(Value::Kind kind);  // Python's names: "str", "dict", ...
bool truth(const Value& v);
// `budget` is lowered by the values visited; below zero the answer is refused.
bool equal(const Value& a, const Value& b, int64_t& budget);
std::string to_text(const Value& v, int64_t& budget);              // str(v)
std::string to_json(const Value& v, int indent, int64_t& budget);  // json.dumps(v, ensure_ascii=False)

// Python strings count code points; these work on UTF-8. Ill-formed bytes count one each.
size_t next_point(std::string_view s, size_t at);  // the byte after the character at `at`
int64_t length_of(std::string_view s);
std::vector<std::string_view> points_of(std::string_view s);
bool is_space(std::string_view point);  // str.isspace of one character
enum class Side { left = 1, right = 2, both = 3 };
// str.strip: whitespace, or any of the characters in `chars`.
std::string_view strip(std::string_view s, Side side, const std::string* chars = nullptr);
enum class Case { upper, lower, title, capital };
std::string change_case(std::string_view s, Case to);

}  // namespace fp8rl::jinja
