#include "io/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/error.h"
#include "core/text.h"
#include "io/file.h"

namespace fp8rl {

struct Json::Origin {
    std::shared_ptr<const Origin> parent;
    std::string name;  // the source at the root, else the key; "" for an element
    size_t index = 0;
};

// Builds the tree from the library's events, so that depth and duplicate keys are ours to judge.
class JsonBuilder {
  public:
    using number_integer_t = nlohmann::json::number_integer_t;
    using number_unsigned_t = nlohmann::json::number_unsigned_t;
    using number_float_t = nlohmann::json::number_float_t;
    using string_t = std::string;
    using binary_t = nlohmann::json::binary_t;

    JsonBuilder(std::string_view text, const std::string& source, int64_t first_line)
        : text_(text), first_line_(first_line) {
        auto origin = std::make_shared<Json::Origin>();
        origin->name = source;
        origin_ = std::move(origin);
    }

    bool null() { return add(Json()); }
    bool boolean(bool b) { return add(Json(b)); }
    bool number_integer(number_integer_t n) { return add(Json(static_cast<int64_t>(n))); }
    bool number_unsigned(number_unsigned_t n) {
        return n <= static_cast<number_unsigned_t>(INT64_MAX) ? add(Json(static_cast<int64_t>(n)))
                                                              : add(Json(static_cast<double>(n)));
    }
    bool number_float(number_float_t x, const string_t&) { return add(Json(static_cast<double>(x))); }
    bool string(string_t& s) { return add(Json(std::move(s))); }
    bool binary(binary_t&) { defect("json: binary values do not occur in text"); }
    bool start_object(size_t) { return open(Json::object()); }
    bool start_array(size_t) { return open(Json::array()); }
    bool key(string_t& k) {
        keys_.back() = std::move(k);
        return true;
    }
    bool end_object() {
        refuse_duplicates(open_.back()->members(), *open_.back());
        return close();
    }
    bool end_array() { return close(); }
    bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& e) {
        std::string what = e.what(), at;
        if (size_t p = what.find("syntax error"); p != std::string::npos) what = what.substr(p);
        if (first_line_) {
            auto end = static_cast<ptrdiff_t>(std::min(position ? position - 1 : 0, text_.size()));
            at = cat(":", first_line_ + std::count(text_.begin(), text_.begin() + end, '\n'));
        }
        refuse(origin_->name, at, ": not JSON: ", text::valid_utf8(what));
    }

    Json root;

  private:
    Json* place(Json&& value) {
        auto origin = std::make_shared<Json::Origin>();
        if (open_.empty()) {
            *origin = *origin_;
        } else {
            Json& parent = *open_.back();
            origin->parent = parent.origin_;
            if (parent.is_object())
                origin->name = keys_.back();
            else
                origin->index = parent.size();
        }
        value.origin_ = std::move(origin);
        if (open_.empty()) {
            root = std::move(value);
            return &root;
        }
        if (auto* members = std::get_if<Json::Members>(&open_.back()->value_)) {
            members->emplace_back(std::move(keys_.back()), std::move(value));
            return &members->back().second;
        }
        auto& items = std::get<Json::Items>(open_.back()->value_);
        items.push_back(std::move(value));
        return &items.back();
    }
    bool add(Json&& value) {
        place(std::move(value));
        return true;
    }
    // A container's address is stable while it is open: its parent only grows after it is closed.
    bool open(Json&& value) {
        if (open_.size() >= static_cast<size_t>(Json::max_depth))
            refuse(origin_->name, ": nested more than ", Json::max_depth, " levels deep");
        open_.push_back(place(std::move(value)));
        keys_.emplace_back();
        return true;
    }
    bool close() {
        open_.pop_back();
        keys_.pop_back();
        return true;
    }
    static void refuse_duplicates(const Json::Members& members, const Json& object) {
        std::unordered_set<std::string_view> seen;
        for (const auto& [key, value] : members)
            if (!seen.insert(key).second)
                refuse(object.where(), ": the key \"", key, "\" stands there twice");
    }

    std::string_view text_;
    int64_t first_line_;
    std::shared_ptr<const Json::Origin> origin_;
    std::vector<Json*> open_;
    std::vector<std::string> keys_;
};

Json Json::array(Items items) {
    Json j;
    j.value_ = std::move(items);
    return j;
}

Json Json::object(Members members) {
    Json j;
    j.value_ = std::move(members);
    return j;
}

Json Json::parse(std::string_view text, const std::string& source, int64_t first_line) {
    JsonBuilder builder(text, source, first_line);
    nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
    return std::move(builder.root);
}

Json Json::parse_file(const std::string& path) {
    MappedFile file(path);
    return parse(file.text(), path);
}

const char* name_of(Json::Kind kind) {
    switch (kind) {
        case Json::Kind::null: return "null";
        case Json::Kind::boolean: return "true or false";
        case Json::Kind::integer: return "an integer";
        case Json::Kind::number: return "a number";
        case Json::Kind::string: return "a string";
        case Json::Kind::array: return "an array";
        case Json::Kind::object: return "an object";
    }
    return "?";
}

std::string Json::where() const {
    if (!origin_) return "json";
    std::string path;
    const Origin* o = origin_.get();
    for (; o->parent; o = o->parent.get()) {
        std::string step = o->name.empty() ? "[" + std::to_string(o->index) + "]" : o->name;
        path = path.empty() ? step : path[0] == '[' ? step + path : step + "." + path;
    }
    return path.empty() ? o->name : o->name + ": " + path;
}

void Json::wrong_kind(const char* needed) const {
    refuse(where(), ": ", needed, " is needed, found ", name_of(kind()));
}

bool Json::as_bool() const {
    if (auto* b = std::get_if<bool>(&value_)) return *b;
    wrong_kind("true or false");
}

int64_t Json::as_integer() const {
    if (auto* n = std::get_if<int64_t>(&value_)) return *n;
    if (auto* x = std::get_if<double>(&value_))
        if (*x == std::trunc(*x) && std::fabs(*x) < 9.0e15) return static_cast<int64_t>(*x);
    wrong_kind("an integer");
}

double Json::as_number() const {
    if (auto* n = std::get_if<int64_t>(&value_)) return static_cast<double>(*n);
    if (auto* x = std::get_if<double>(&value_)) return *x;
    wrong_kind("a number");
}

const std::string& Json::as_string() const {
    if (auto* s = std::get_if<std::string>(&value_)) return *s;
    wrong_kind("a string");
}

const Json::Items& Json::items() const {
    if (auto* a = std::get_if<Items>(&value_)) return *a;
    wrong_kind("an array");
}

const Json::Members& Json::members() const {
    if (auto* m = std::get_if<Members>(&value_)) return *m;
    wrong_kind("an object");
}

size_t Json::size() const {
    if (auto* a = std::get_if<Items>(&value_)) return a->size();
    return members().size();
}

const Json* Json::find(std::string_view key) const {
    for (const auto& [name, value] : members())
        if (name == key) return &value;
    return nullptr;
}

bool Json::has(std::string_view key) const {
    const Json* j = find(key);
    return j && !j->is_null();
}

const Json& Json::at(std::string_view key) const {
    if (const Json* j = find(key)) return *j;
    std::vector<std::string> names;
    for (const auto& member : members()) names.push_back(member.first);
    std::string near = text::nearest(key, names);
    refuse(where(), ": the key \"", key, "\" is missing", near.empty() ? "" : " (there is \"" + near + "\")");
}

const Json& Json::at(size_t index) const {
    const Items& a = items();
    if (index >= a.size()) refuse(where(), ": element ", index, " of ", a.size());
    return a[index];
}

bool Json::bool_or(std::string_view key, bool fallback) const {
    return has(key) ? at(key).as_bool() : fallback;
}
int64_t Json::integer_or(std::string_view key, int64_t fallback) const {
    return has(key) ? at(key).as_integer() : fallback;
}
double Json::number_or(std::string_view key, double fallback) const {
    return has(key) ? at(key).as_number() : fallback;
}
std::string Json::string_or(std::string_view key, const std::string& fallback) const {
    return has(key) ? at(key).as_string() : fallback;
}

Json& Json::set(std::string key, Json value) {
    if (is_null()) value_ = Members{};
    if (!is_object()) wrong_kind("an object");
    auto& m = std::get<Members>(value_);
    auto it = std::find_if(m.begin(), m.end(), [&](const auto& member) { return member.first == key; });
    if (it != m.end())
        it->second = std::move(value);
    else
        m.emplace_back(std::move(key), std::move(value));
    return *this;
}

Json& Json::push(Json value) {
    if (is_null()) value_ = Items{};
    if (!is_array()) wrong_kind("an array");
    std::get<Items>(value_).push_back(std::move(value));
    return *this;
}

static void write_string(std::string& out, const std::string& s) {
    // The added newline ends an unfinished last character, so that it turns into U+FFFD instead of vanishing.
    std::string valid = text::valid_utf8(s + "\n");
    valid.pop_back();
    out += '"';
    for (char c : valid) {
        switch (c) {
            case '"': out += "\\\""; break;
            case '\\': out += "\\\\"; break;
            case '\n': out += "\\n"; break;
            case '\r': out += "\\r"; break;
            case '\t': out += "\\t"; break;
            case '\b': out += "\\b"; break;
            case '\f': out += "\\f"; break;
            default:
                if (static_cast<unsigned char>(c) < 0x20) {
                    char escape[8];
                    std::snprintf(escape, sizeof escape, "\\u%04x", c);
                    out += escape;
                } else {
                    out += c;
                }
        }
    }
    out += '"';
}

static void write_number(std::string& out, double x) {
    if (!std::isfinite(x)) {
        out += "null";
        return;
    }
    char buffer[40];
    auto result = std::to_chars(buffer, buffer + sizeof buffer, x);
    std::string_view s(buffer, static_cast<size_t>(result.ptr - buffer));
    out += s;
    if (s.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void Json::write(std::string& out, int indent, int level) const {
    auto newline = [&](int at) {
        if (indent > 0) out.append("\n").append(static_cast<size_t>(indent * at), ' ');
    };
    switch (kind()) {
        case Kind::null: out += "null"; return;
        case Kind::boolean: out += std::get<bool>(value_) ? "true" : "false"; return;
        case Kind::integer: out += std::to_string(std::get<int64_t>(value_)); return;
        case Kind::number: write_number(out, std::get<double>(value_)); return;
        case Kind::string: write_string(out, std::get<std::string>(value_)); return;
        case Kind::array: {
            out += '[';
            bool first = true;
            for (const Json& item : std::get<Items>(value_)) {
                if (!first) out += indent > 0 ? "," : ", ";
                first = false;
                newline(level + 1);
                item.write(out, indent, level + 1);
            }
            if (!first) newline(level);
            out += ']';
            return;
        }
        case Kind::object: {
            out += '{';
            bool first = true;
            for (const auto& [key, value] : std::get<Members>(value_)) {
                if (!first) out += indent > 0 ? "," : ", ";
                first = false;
                newline(level + 1);
                write_string(out, key);
                out += ": ";
                value.write(out, indent, level + 1);
            }
            if (!first) newline(level);
            out += '}';
            return;
        }
    }
}

std::string Json::dump(int indent) const {
    std::string out;
    write(out, indent, 0);
    return out;
}

}  // namespace fp8rl
