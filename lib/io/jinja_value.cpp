#include "io/jinja_value.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/error.h"

namespace fp8rl::jinja {

static constexpr int max_value_depth = 100;

static int checked_depth(int depth) {
    if (depth > max_value_depth) refuse("a value nested more than ", max_value_depth, " levels deep");
    return depth;
}

static int child_depth(const Value& v) {
    // A namespace inside a container could come to contain that container.
    if (v.is(Value::Kind::space) || v.is(Value::Kind::loop))
        refuse("a ", name_of(v.kind()), " inside a list or dict");
    return v.depth();
}

Value::Value(std::vector<Value> items) {
    int depth = 0;
    for (const Value& item : items) depth = std::max(depth, child_depth(item));
    v_ = std::make_shared<const List>(List{std::move(items), checked_depth(depth + 1)});
}

Value::Value(std::vector<std::pair<std::string, Value>> members) {
    int depth = 0;
    for (const auto& member : members) depth = std::max(depth, child_depth(member.second));
    v_ = std::make_shared<const Dict>(Dict{std::move(members), checked_depth(depth + 1)});
}

Value Value::from(const Json& json) {
    switch (json.kind()) {
        case Json::Kind::null: return Value();
        case Json::Kind::boolean: return Value(json.as_bool());
        case Json::Kind::integer: return Value(json.as_integer());
        case Json::Kind::number: return Value(json.as_number());
        case Json::Kind::string: return Value(json.as_string());
        case Json::Kind::array: {
            std::vector<Value> items;
            for (const Json& item : json.items()) items.push_back(from(item));
            return Value(std::move(items));
        }
        case Json::Kind::object: {
            std::vector<std::pair<std::string, Value>> members;
            for (const auto& [key, value] : json.members()) members.emplace_back(key, from(value));
            return Value(std::move(members));
        }
    }
    defect("jinja: unknown JSON kind");
}

const std::vector<Value>& Value::items() const { return std::get<std::shared_ptr<const List>>(v_)->items; }
const std::vector<std::pair<std::string, Value>>& Value::members() const {
    return std::get<std::shared_ptr<const Dict>>(v_)->members;
}

int64_t Value::integer() const {
    if (auto* b = std::get_if<bool>(&v_)) return *b;
    return std::get<int64_t>(v_);
}

double Value::number() const {
    if (auto* x = std::get_if<double>(&v_)) return *x;
    return static_cast<double>(integer());
}

const Value* Value::member(std::string_view key) const {
    for (const auto& [name, value] : members())
        if (name == key) return &value;
    return nullptr;
}

int Value::depth() const {
    if (auto* l = std::get_if<std::shared_ptr<const List>>(&v_)) return (*l)->depth;
    if (auto* d = std::get_if<std::shared_ptr<const Dict>>(&v_)) return (*d)->depth;
    return 0;
}

const char* name_of(Value::Kind kind) {
    switch (kind) {
        case Value::Kind::undefined: return "undefined value";
        case Value::Kind::none: return "None";
        case Value::Kind::boolean: return "bool";
        case Value::Kind::integer: return "int";
        case Value::Kind::number: return "float";
        case Value::Kind::string: return "str";
        case Value::Kind::list: return "list";
        case Value::Kind::dict: return "dict";
        case Value::Kind::space: return "namespace";
        case Value::Kind::loop: return "loop";
    }
    return "?";
}

bool truth(const Value& v) {
    switch (v.kind()) {
        case Value::Kind::undefined:
        case Value::Kind::none: return false;
        case Value::Kind::boolean:
        case Value::Kind::integer: return v.integer() != 0;
        case Value::Kind::number: return v.number() != 0;
        case Value::Kind::string: return !v.string().empty();
        case Value::Kind::list: return !v.items().empty();
        case Value::Kind::dict: return !v.members().empty();
        case Value::Kind::space:
        case Value::Kind::loop: return true;
    }
    return false;
}

static void spend(int64_t& budget, int64_t cost) {
    budget -= cost;
    if (budget < 0) refuse("the template takes too much work");
}

bool equal(const Value& a, const Value& b, int64_t& budget) {
    spend(budget, 1);
    if (a.is_numeric() && b.is_numeric()) {
        if (a.is(Value::Kind::number) || b.is(Value::Kind::number)) return a.number() == b.number();
        return a.integer() == b.integer();
    }
    if (a.kind() != b.kind()) return false;
    switch (a.kind()) {
        case Value::Kind::string:
            spend(budget, static_cast<int64_t>(std::min(a.string().size(), b.string().size()) / 16));
            return a.string() == b.string();
        case Value::Kind::list: {
            const auto &x = a.items(), &y = b.items();
            if (x.size() != y.size()) return false;
            for (size_t i = 0; i < x.size(); ++i)
                if (!equal(x[i], y[i], budget)) return false;
            return true;
        }
        case Value::Kind::dict: {
            if (a.members().size() != b.members().size()) return false;
            for (const auto& [key, value] : a.members()) {
                spend(budget, static_cast<int64_t>(b.members().size()));
                const Value* other = b.member(key);
                if (!other || !equal(value, *other, budget)) return false;
            }
            return true;
        }
        case Value::Kind::space: return &a.space() == &b.space();
        case Value::Kind::loop: return &a.loop() == &b.loop();
        default: return true;  // both undefined or both None
    }
}

// Python's repr: shortest digits that read back, an exponent below 1e-4 and from 1e16 on.
static std::string float_text(double x) {
    if (std::isnan(x)) return "nan";
    if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
    char buffer[400];
    const double size = std::fabs(x);
    const bool exponent = size != 0 && (size < 1e-4 || size >= 1e16);
    auto end = std::to_chars(buffer, buffer + sizeof buffer, x,
                             exponent ? std::chars_format::scientific : std::chars_format::fixed);
    std::string s(buffer, end.ptr);
    if (!exponent && s.find('.') == std::string::npos) s += ".0";
    return s;
}

// Python's repr of a string, but every character beyond ASCII stands for itself.
static std::string quoted(const std::string& s) {
    const char quote = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
    std::string out(1, quote);
    for (char c : s) {
        auto u = static_cast<unsigned char>(c);
        if (c == quote || c == '\\')
            out += '\\', out += c;
        else if (c == '\n')
            out += "\\n";
        else if (c == '\r')
            out += "\\r";
        else if (c == '\t')
            out += "\\t";
        else if (u < 0x20 || u == 0x7F)
            out += "\\x", out += "0123456789abcdef"[u >> 4], out += "0123456789abcdef"[u & 15];
        else
            out += c;
    }
    out += quote;
    return out;
}

static void write_text(const Value& v, bool inside, std::string& out, int64_t& budget) {
    spend(budget, 1);
    switch (v.kind()) {
        case Value::Kind::undefined:
            if (inside) out += "Undefined";
            return;
        case Value::Kind::none: out += "None"; return;
        case Value::Kind::boolean: out += v.integer() ? "True" : "False"; return;
        case Value::Kind::integer: out += std::to_string(v.integer()); return;
        case Value::Kind::number: out += float_text(v.number()); return;
        case Value::Kind::string:
            spend(budget, static_cast<int64_t>(v.string().size()));
            out += inside ? quoted(v.string()) : v.string();
            return;
        case Value::Kind::list: {
            out += '[';
            bool first = true;
            for (const Value& item : v.items()) {
                if (!first) out += ", ";
                first = false;
                write_text(item, true, out, budget);
            }
            out += ']';
            return;
        }
        case Value::Kind::dict: {
            out += '{';
            bool first = true;
            for (const auto& [key, value] : v.members()) {
                if (!first) out += ", ";
                first = false;
                spend(budget, static_cast<int64_t>(key.size()));
                out += quoted(key) + ": ";
                write_text(value, true, out, budget);
            }
            out += '}';
            return;
        }
        case Value::Kind::space:
        case Value::Kind::loop: refuse("a ", name_of(v.kind()), " has no text");
    }
}

std::string to_text(const Value& v, int64_t& budget) {
    std::string out;
    write_text(v, false, out, budget);
    return out;
}

static void write_json(const Value& v, int indent, int level, std::string& out, int64_t& budget) {
    spend(budget, 1 + (indent > 0 ? indent * level : 0));
    auto newline = [&](int at) {
        if (indent >= 0) out.append("\n").append(static_cast<size_t>(indent * at), ' ');
    };
    const char* comma = indent >= 0 ? "," : ", ";
    switch (v.kind()) {
        case Value::Kind::none: out += "null"; return;
        case Value::Kind::boolean: out += v.integer() ? "true" : "false"; return;
        case Value::Kind::integer: out += std::to_string(v.integer()); return;
        case Value::Kind::number:
            if (!std::isfinite(v.number())) refuse("tojson: ", float_text(v.number()), " is not JSON");
            out += float_text(v.number());
            return;
        case Value::Kind::string:
            spend(budget, static_cast<int64_t>(v.string().size()));
            out += Json(v.string()).dump();
            return;
        case Value::Kind::list: {
            out += '[';
            bool first = true;
            for (const Value& item : v.items()) {
                if (!first) out += comma;
                first = false;
                newline(level + 1);
                write_json(item, indent, level + 1, out, budget);
            }
            if (!first) newline(level);
            out += ']';
            return;
        }
        case Value::Kind::dict: {
            out += '{';
            bool first = true;
            for (const auto& [key, value] : v.members()) {
                if (!first) out += comma;
                first = false;
                newline(level + 1);
                spend(budget, static_cast<int64_t>(key.size()));
                out += Json(key).dump() + ": ";
                write_json(value, indent, level + 1, out, budget);
            }
            if (!first) newline(level);
            out += '}';
            return;
        }
        default: refuse("tojson: a ", name_of(v.kind()), " is not JSON");
    }
}

std::string to_json(const Value& v, int indent, int64_t& budget) {
    std::string out;
    write_json(v, indent, 0, out, budget);
    return out;
}

size_t next_point(std::string_view s, size_t at) {
    auto c = static_cast<uint8_t>(s[at]);
    size_t n = c < 0xC2 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 1;
    if (at + n > s.size()) return at + 1;
    for (size_t k = 1; k < n; ++k)
        if ((static_cast<uint8_t>(s[at + k]) & 0xC0) != 0x80) return at + 1;
    return at + n;
}

int64_t length_of(std::string_view s) {
    int64_t n = 0;
    for (size_t i = 0; i < s.size(); i = next_point(s, i)) ++n;
    return n;
}

std::vector<std::string_view> points_of(std::string_view s) {
    std::vector<std::string_view> out;
    for (size_t i = 0; i < s.size();) {
        size_t end = next_point(s, i);
        out.push_back(s.substr(i, end - i));
        i = end;
    }
    return out;
}

static utf8proc_int32_t code_of(std::string_view point) {
    utf8proc_int32_t code = -1;
    utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(point.data()),
                     static_cast<utf8proc_ssize_t>(point.size()), &code);
    return code;
}

bool is_space(std::string_view point) {
    const auto c = code_of(point);
    return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
           c == 0x3000;
}

std::string_view strip(std::string_view s, Side side, const std::string* chars) {
    auto drops = [&](std::string_view point) {
        if (!chars) return is_space(point);
        for (size_t i = 0; i < chars->size(); i = next_point(*chars, i))
            if (std::string_view(*chars).substr(i, next_point(*chars, i) - i) == point) return true;
        return false;
    };
    if (static_cast<int>(side) & static_cast<int>(Side::left))
        while (!s.empty()) {
            size_t n = next_point(s, 0);
            if (!drops(s.substr(0, n))) break;
            s.remove_prefix(n);
        }
    if (static_cast<int>(side) & static_cast<int>(Side::right))
        while (!s.empty()) {
            size_t begin = s.size() - 1;
            while (begin > 0 && s.size() - begin < 4 && (static_cast<uint8_t>(s[begin]) & 0xC0) == 0x80)
                --begin;
            if (next_point(s, begin) != s.size()) begin = s.size() - 1;
            if (!drops(s.substr(begin))) break;
            s.remove_suffix(s.size() - begin);
        }
    return s;
}

std::string change_case(std::string_view s, Case to) {
    std::string out;
    bool start = true;
    for (size_t i = 0; i < s.size();) {
        size_t end = next_point(s, i);
        std::string_view point = s.substr(i, end - i);
        i = end;
        auto code = code_of(point);
        if (code < 0) {
            out += point;
            continue;
        }
        auto category = utf8proc_category(code);
        bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LT;
        bool up = to == Case::upper || (to != Case::lower && start);
        auto changed = up ? utf8proc_toupper(code) : utf8proc_tolower(code);
        start = to == Case::title ? !letter : false;
        utf8proc_uint8_t buffer[4];
        auto n = utf8proc_encode_char(changed, buffer);
        out.append(reinterpret_cast<char*>(buffer), static_cast<size_t>(n));
    }
    return out;
}

}  // namespace fp8rl::jinja
