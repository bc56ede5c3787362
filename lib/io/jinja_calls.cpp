#include "io/jinja_calls.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/text.h"

namespace fp8rl::jinja {

using Kind = Value::Kind;

const std::vector<Signature>& filters() {
    static const std::vector<Signature> table = {
        {"trim", 0, {"chars"}},
        {"upper", 0, {}},
        {"lower", 0, {}},
        {"title", 0, {}},
        {"capitalize", 0, {}},
        {"length", 0, {}},
        {"count", 0, {}},
        {"tojson", 0, {"indent"}},
        {"default", 0, {"default_value", "boolean"}},
        {"d", 0, {"default_value", "boolean"}},
        {"join", 0, {"d"}},
        {"replace", 2, {"old", "new", "count"}},
        {"first", 0, {}},
        {"last", 0, {}},
        {"list", 0, {}},
        {"string", 0, {}},
        {"int", 0, {"default"}},
        {"reverse", 0, {}},
        {"items", 0, {}},
        {"safe", 0, {}},
    };
    return table;
}

const std::vector<Signature>& tests() {
    static const std::vector<Signature> table = {
        {"defined", 0, {}},   {"undefined", 0, {}},
        {"none", 0, {}},      {"string", 0, {}},
        {"number", 0, {}},    {"integer", 0, {}},
        {"float", 0, {}},     {"boolean", 0, {}},
        {"true", 0, {}},      {"false", 0, {}},
        {"mapping", 0, {}},   {"sequence", 0, {}},
        {"iterable", 0, {}},  {"odd", 0, {}},
        {"even", 0, {}},      {"divisibleby", 1, {"num"}},
        {"in", 1, {"seq"}},   {"equalto", 1, {"other"}},
        {"eq", 1, {"other"}}, {"ne", 1, {"other"}},
    };
    return table;
}

const std::vector<Signature>& methods() {
    static const std::vector<Signature> table = {
        {"strip", 0, {"chars"}},
        {"lstrip", 0, {"chars"}},
        {"rstrip", 0, {"chars"}},
        {"upper", 0, {}},
        {"lower", 0, {}},
        {"title", 0, {}},
        {"capitalize", 0, {}},
        {"startswith", 1, {"prefix"}},
        {"endswith", 1, {"suffix"}},
        {"split", 0, {"sep", "maxsplit"}},
        {"replace", 2, {"old", "new", "count"}},
        {"join", 1, {"iterable"}},
        {"find", 1, {"sub"}},
        {"items", 0, {}},
        {"keys", 0, {}},
        {"values", 0, {}},
        {"get", 1, {"key", "default"}},
    };
    return table;
}

const std::vector<Signature>& functions() {
    static const std::vector<Signature> table = {
        {"namespace", 0, {}},
        {"range", 1, {"start", "stop", "step"}},
        {"raise_exception", 1, {"message"}},
    };
    return table;
}

bool is_loop_attribute(std::string_view name) {
    static constexpr std::array<std::string_view, 11> known = {"index",    "index0", "revindex", "revindex0",
                                                               "first",    "last",   "length",   "previtem",
                                                               "nextitem", "depth",  "depth0"};
    return std::find(known.begin(), known.end(), name) != known.end();
}

void spend(int64_t& budget, uint64_t work) {
    if (work > static_cast<uint64_t>(INT64_MAX) || (budget -= static_cast<int64_t>(work)) < 0)
        refuse("the template takes too much work");
}

static const std::string& string_of(const Value& v, const char* what) {
    if (!v.is(Kind::string)) refuse(what, ": a string is needed, found ", name_of(v.kind()));
    return v.string();
}
static int64_t integer_of(const Value& v, const char* what) {
    if (!v.is(Kind::integer) && !v.is(Kind::boolean))
        refuse(what, ": an integer is needed, found ", name_of(v.kind()));
    return v.integer();
}
// The text of any value, as str() gives it.
static std::string text_of(const Value& v, int64_t& budget) { return to_text(v, budget); }

std::vector<Value> iterate(const Value& v, int64_t& budget) {
    std::vector<Value> out;
    switch (v.kind()) {
        case Kind::undefined: break;
        case Kind::list: out = v.items(); break;
        case Kind::dict:
            for (const auto& member : v.members()) out.emplace_back(member.first);
            break;
        case Kind::string:
            spend(budget, v.string().size());
            for (std::string_view point : points_of(v.string())) out.emplace_back(point);
            break;
        default: refuse("a ", name_of(v.kind()), " cannot be walked over");
    }
    spend(budget, out.size());
    return out;
}

bool contains(const Value& container, const Value& v, int64_t& budget) {
    switch (container.kind()) {
        case Kind::undefined: return false;
        case Kind::string: {
            spend(budget, container.string().size());
            return container.string().find(string_of(v, "in")) != std::string::npos;
        }
        case Kind::list:
            for (const Value& item : container.items())
                if (equal(item, v, budget)) return true;
            return false;
        case Kind::dict: {
            spend(budget, container.members().size());
            return v.is(Kind::string) && container.member(v.string()) != nullptr;
        }
        default: refuse("in: a ", name_of(container.kind()), " holds nothing");
    }
}

int compare_order(const Value& a, const Value& b) {
    if (a.is_numeric() && b.is_numeric()) {
        if (!a.is(Kind::number) && !b.is(Kind::number))
            return a.integer() < b.integer() ? -1 : a.integer() > b.integer();
        return a.number() < b.number() ? -1 : a.number() > b.number();
    }
    if (a.is(Kind::string) && b.is(Kind::string)) {
        // UTF-8 keeps the order of code points.
        int order = a.string().compare(b.string());
        return order < 0 ? -1 : order > 0;
    }
    refuse("a ", name_of(a.kind()), " and a ", name_of(b.kind()), " have no order");
}

static Value stripped(const Value& v, Side side, const Value* chars, const char* what, int64_t& budget) {
    const std::string& s = string_of(v, what);
    const std::string* set = chars && !chars->is(Kind::none) ? &string_of(*chars, what) : nullptr;
    spend(budget, s.size() * (set ? 1 + set->size() : 1));
    return Value(strip(s, side, set));
}

static Value cased(const Value& v, Case to, int64_t& budget) {
    std::string s = text_of(v, budget);
    return Value(change_case(s, to));
}

static Value replaced(const std::string& s, const Arguments& a, int64_t& budget) {
    const std::string &from = string_of(*a[0], "replace"), &to = string_of(*a[1], "replace");
    int64_t left = a[2] && !a[2]->is(Kind::none) ? integer_of(*a[2], "replace") : -1;
    spend(budget, s.size());
    std::string out;
    size_t at = 0;
    if (from.empty()) refuse("replace: an empty string to be replaced is not supported");
    for (size_t found; left != 0 && (found = s.find(from, at)) != std::string::npos; --left) {
        spend(budget, to.size());
        out.append(s, at, found - at).append(to);
        at = found + from.size();
    }
    out.append(s, at);
    return Value(std::move(out));
}

static Value joined(const std::string& separator, const Value& list, bool strings_only, int64_t& budget) {
    std::string out;
    bool first = true;
    for (const Value& item : iterate(list, budget)) {
        spend(budget, separator.size());
        if (!first) out += separator;
        first = false;
        out += strings_only ? string_of(item, "join") : text_of(item, budget);
        spend(budget, item.is(Kind::string) ? item.string().size() : 0);
    }
    return Value(std::move(out));
}

static Value split(const std::string& s, const Arguments& a, int64_t& budget) {
    spend(budget, s.size());
    int64_t left = a[1] ? integer_of(*a[1], "split") : -1;
    std::vector<Value> out;
    if (a[0] && !a[0]->is(Kind::none)) {
        const std::string& separator = string_of(*a[0], "split");
        if (separator.empty()) refuse("split: an empty separator");
        size_t at = 0;
        for (size_t found; left != 0 && (found = s.find(separator, at)) != std::string::npos; --left) {
            out.emplace_back(std::string_view(s).substr(at, found - at));
            at = found + separator.size();
        }
        out.emplace_back(std::string_view(s).substr(at));
    } else {
        // Runs of whitespace separate, and none leads or trails.
        std::string_view rest = strip(s, Side::left);
        while (!rest.empty()) {
            size_t end = 0;
            while (end < rest.size() && !is_space(rest.substr(end, next_point(rest, end) - end)))
                end = next_point(rest, end);
            if (left == 0) {
                out.emplace_back(strip(rest, Side::right));
                break;
            }
            out.emplace_back(rest.substr(0, end));
            rest = strip(rest.substr(end), Side::left);
            --left;
        }
    }
    spend(budget, out.size());
    return Value(std::move(out));
}

static Value pairs(const Value& dict) {
    std::vector<Value> out;
    for (const auto& [key, value] : dict.members()) out.emplace_back(std::vector<Value>{Value(key), value});
    return Value(std::move(out));
}

static Value size_of(const Value& v) {
    switch (v.kind()) {
        case Kind::undefined: return Value(int64_t{0});
        case Kind::string: return Value(length_of(v.string()));
        case Kind::list: return Value(static_cast<int64_t>(v.items().size()));
        case Kind::dict: return Value(static_cast<int64_t>(v.members().size()));
        default: refuse("length: a ", name_of(v.kind()), " has none");
    }
}

// int(x) of Python; what cannot be converted gives the default.
static Value to_integer(const Value& v, const Value* fallback) {
    const Value other = fallback ? *fallback : Value(int64_t{0});
    if (v.is(Kind::integer) || v.is(Kind::boolean)) return Value(v.integer());
    double x = 0;
    if (v.is(Kind::number)) {
        x = v.number();
    } else if (v.is(Kind::string)) {
        long long n = 0;
        std::string_view s = strip(v.string(), Side::both);
        if (text::parse(s, n)) return Value(int64_t{n});
        if (!text::parse(s, x)) return other;
    } else {
        return other;
    }
    if (!std::isfinite(x) || std::fabs(x) >= 9e18) return other;
    return Value(static_cast<int64_t>(x));
}

Value call_filter(const std::string& name, const Value& input, const Arguments& a, int64_t& budget) {
    spend(budget, 1);
    if (name == "trim") return stripped(Value(text_of(input, budget)), Side::both, a[0], "trim", budget);
    if (name == "upper") return cased(input, Case::upper, budget);
    if (name == "lower") return cased(input, Case::lower, budget);
    if (name == "title") return cased(input, Case::title, budget);
    if (name == "capitalize") return cased(input, Case::capital, budget);
    if (name == "length" || name == "count") return size_of(input);
    if (name == "tojson") {
        int64_t indent = a[0] && !a[0]->is(Kind::none) ? integer_of(*a[0], "tojson: indent") : -1;
        if (indent > 100) refuse("tojson: an indent of ", indent);
        return Value(to_json(input, static_cast<int>(std::max<int64_t>(indent, -1)), budget));
    }
    if (name == "default" || name == "d") {
        const bool replaces = input.is(Kind::undefined) || (a[1] && truth(*a[1]) && !truth(input));
        return !replaces ? input : a[0] ? *a[0] : Value("");
    }
    if (name == "join") return joined(a[0] ? string_of(*a[0], "join") : "", input, false, budget);
    if (name == "replace") return replaced(text_of(input, budget), a, budget);
    if (name == "first" || name == "last") {
        std::vector<Value> items = iterate(input, budget);
        if (items.empty()) return Value(Undefined{name + " of nothing"});
        return name == "first" ? items.front() : items.back();
    }
    if (name == "list") return Value(iterate(input, budget));
    if (name == "string" || name == "safe") return Value(text_of(input, budget));
    if (name == "int") return to_integer(input, a[0]);
    if (name == "reverse") {
        std::vector<Value> items = iterate(input, budget);
        std::reverse(items.begin(), items.end());
        if (!input.is(Kind::string)) return Value(std::move(items));
        return joined("", Value(std::move(items)), true, budget);
    }
    if (name == "items") {
        if (input.is(Kind::undefined)) return Value(std::vector<Value>{});
        if (!input.is(Kind::dict)) refuse("items: a dict is needed, found ", name_of(input.kind()));
        spend(budget, input.members().size());
        return pairs(input);
    }
    defect("jinja: no filter ", name);
}

bool call_test(const std::string& name, const Value& v, const Arguments& a, int64_t& budget) {
    spend(budget, 1);
    if (name == "defined") return !v.is(Kind::undefined);
    if (name == "undefined") return v.is(Kind::undefined);
    if (name == "none") return v.is(Kind::none);
    if (name == "string") return v.is(Kind::string);
    if (name == "number") return v.is_numeric();
    if (name == "integer") return v.is(Kind::integer);
    if (name == "float") return v.is(Kind::number);
    if (name == "boolean") return v.is(Kind::boolean);
    if (name == "true") return v.is(Kind::boolean) && v.integer();
    if (name == "false") return v.is(Kind::boolean) && !v.integer();
    if (name == "mapping") return v.is(Kind::dict);
    if (name == "sequence" || name == "iterable")
        return v.is(Kind::string) || v.is(Kind::list) || v.is(Kind::dict) || v.is(Kind::undefined);
    if (name == "odd") return integer_of(v, "odd") % 2 != 0;
    if (name == "even") return integer_of(v, "even") % 2 == 0;
    if (name == "divisibleby") {
        int64_t n = integer_of(*a[0], "divisibleby");
        if (n == 0) refuse("divisibleby: division by zero");
        return n == -1 || integer_of(v, "divisibleby") % n == 0;
    }
    if (name == "in") return contains(*a[0], v, budget);
    if (name == "equalto" || name == "eq") return equal(v, *a[0], budget);
    if (name == "ne") return !equal(v, *a[0], budget);
    defect("jinja: no test ", name);
}

static Value string_method(const std::string& name, const Value& self, const Arguments& a, int64_t& budget) {
    const std::string& s = self.string();
    if (name == "strip") return stripped(self, Side::both, a[0], "strip", budget);
    if (name == "lstrip") return stripped(self, Side::left, a[0], "lstrip", budget);
    if (name == "rstrip") return stripped(self, Side::right, a[0], "rstrip", budget);
    if (name == "upper") return cased(self, Case::upper, budget);
    if (name == "lower") return cased(self, Case::lower, budget);
    if (name == "title") return cased(self, Case::title, budget);
    if (name == "capitalize") return cased(self, Case::capital, budget);
    if (name == "startswith") return Value(s.starts_with(string_of(*a[0], "startswith")));
    if (name == "endswith") return Value(s.ends_with(string_of(*a[0], "endswith")));
    if (name == "split") return split(s, a, budget);
    if (name == "replace") return replaced(s, a, budget);
    if (name == "join") return joined(s, *a[0], true, budget);
    if (name == "find") {
        spend(budget, s.size());
        size_t at = s.find(string_of(*a[0], "find"));
        return Value(at == std::string::npos ? int64_t{-1} : length_of(std::string_view(s).substr(0, at)));
    }
    refuse("a str has no method ", name);
}

static Value dict_method(const std::string& name, const Value& self, const Arguments& a, int64_t& budget) {
    spend(budget, self.members().size());
    if (name == "items") return pairs(self);
    if (name == "keys") return Value(iterate(self, budget));
    if (name == "values") {
        std::vector<Value> out;
        for (const auto& member : self.members()) out.push_back(member.second);
        return Value(std::move(out));
    }
    if (name == "get") {
        const Value* found = a[0]->is(Kind::string) ? self.member(a[0]->string()) : nullptr;
        return found ? *found : a[1] ? *a[1] : Value();
    }
    refuse("a dict has no method ", name);
}

Value call_method(const std::string& name, const Value& self, const Arguments& arguments, int64_t& budget) {
    spend(budget, 1);
    if (self.is(Kind::string)) return string_method(name, self, arguments, budget);
    if (self.is(Kind::dict)) return dict_method(name, self, arguments, budget);
    if (self.is(Kind::undefined)) refuse("'", self.undefined_name(), "' is undefined");
    refuse("a ", name_of(self.kind()), " has no method ", name);
}

Value call_function(const std::string& name, const Arguments& a, int64_t& budget) {
    if (name == "raise_exception") refuse(text_of(*a[0], budget));
    if (name == "range") {
        int64_t start = integer_of(*a[0], "range"), stop = a[1] ? integer_of(*a[1], "range") : start;
        int64_t step = a[2] ? integer_of(*a[2], "range") : 1;
        if (!a[1]) start = 0;
        if (step == 0) refuse("range: the step is zero");
        std::vector<Value> out;
        for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
            spend(budget, 1);
            out.emplace_back(i);
            if (__builtin_add_overflow(i, step, &i)) break;
        }
        return Value(std::move(out));
    }
    defect("jinja: no function ", name);
}

}  // namespace fp8rl::jinja
