#include "io/chat_template.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/text.h"
#include "io/jinja_calls.h"

namespace fp8rl {

namespace jinja {

using Kind = Value::Kind;

static constexpr int64_t work_limit = 100'000'000;  // characters and values touched
static constexpr size_t output_limit = 64u << 20;

class Renderer {
  public:
    explicit Renderer(const Program& program) : source_(program.source) { scopes_.emplace_back(); }
    void define(const std::string& name, Value v) { scopes_.back()[name] = std::move(v); }
    std::string run(const Body& body) {
        render(body);
        return std::move(out_);
    }

  private:
    using Scope = std::map<std::string, Value, std::less<>>;

    // Runs f and gives errors that come from values the line of the template.
    template <class F>
    auto located(int line, F f) {
        try {
            return f();
        } catch (const Error& e) {
            if (located_ || e.fault() != Fault::user) throw;
            located_ = true;
            refuse_at(source_, line, e.what());
        }
    }
    template <class... Parts>
    [[noreturn]] void fail(int line, const Parts&... parts) {
        located_ = true;
        refuse_at(source_, line, parts...);
    }

    void render(const Body& body) {
        for (const Stmt& s : body) {
            spend_at(s.line, 1);
            switch (s.kind) {
                case Stmt::Kind::text: write(s.line, s.text); break;
                case Stmt::Kind::output: {
                    Value v = eval(*s.exprs[0]);
                    write(s.line, located(s.line, [&] { return to_text(v, budget_); }));
                    break;
                }
                case Stmt::Kind::branch: branch(s); break;
                case Stmt::Kind::loop: loop(s); break;
                case Stmt::Kind::set: define(s.names[0], eval(*s.exprs[0])); break;
                case Stmt::Kind::set_member: set_member(s); break;
                case Stmt::Kind::set_block: {
                    std::string outer = std::move(out_);
                    out_.clear();
                    render(s.bodies[0]);
                    define(s.names[0], Value(std::move(out_)));
                    out_ = std::move(outer);
                    break;
                }
            }
        }
    }

    void spend_at(int line, uint64_t work) {
        located(line, [&] { spend(budget_, work); });
    }
    void write(int line, std::string_view s) {
        spend_at(line, s.size());
        if (out_.size() + s.size() > output_limit) fail(line, "the text grows past ", output_limit, " bytes");
        out_ += s;
    }

    void branch(const Stmt& s) {
        for (size_t i = 0; i < s.exprs.size(); ++i)
            if (truth(eval(*s.exprs[i]))) return render(s.bodies[i]);
        if (s.bodies.size() > s.exprs.size()) render(s.bodies.back());
    }

    void loop(const Stmt& s) {
        Value over = eval(*s.exprs[0]);
        std::vector<Value> items = located(s.line, [&] { return iterate(over, budget_); });
        if (s.exprs[1]) {
            std::vector<Value> kept;
            for (const Value& item : items) {
                scopes_.emplace_back();
                bind(s, item);
                if (truth(eval(*s.exprs[1]))) kept.push_back(item);
                scopes_.pop_back();
            }
            items = std::move(kept);
        }
        if (items.empty()) {
            if (s.bodies.size() > 1) render(s.bodies[1]);
            return;
        }
        auto state = std::make_shared<Loop>();
        state->items = std::move(items);
        state->depth = ++loop_depth_;
        for (; state->index < state->items.size(); ++state->index) {
            spend_at(s.line, 1);
            scopes_.emplace_back();
            bind(s, state->items[state->index]);
            define("loop", Value(std::shared_ptr<const Loop>(state)));
            render(s.bodies[0]);
            scopes_.pop_back();
        }
        --loop_depth_;
    }
    void bind(const Stmt& s, const Value& item) {
        if (s.names.size() == 1) return define(s.names[0], item);
        if (!item.is(Kind::list) || item.items().size() != s.names.size())
            fail(s.line, s.names.size(), " loop variables need items of that many values");
        for (size_t i = 0; i < s.names.size(); ++i) define(s.names[i], item.items()[i]);
    }

    void set_member(const Stmt& s) {
        Value target = lookup(s.names[0]);
        if (!target.is(Kind::space))
            fail(s.line, "set ", s.names[0], ".", s.names[1], ": only a namespace can be set");
        Value v = eval(*s.exprs[0]);
        // A namespace that holds a namespace could hold itself.
        if (v.is(Kind::space) || v.is(Kind::loop))
            fail(s.line, "a ", name_of(v.kind()), " inside a namespace");
        target.space().members[s.names[1]] = std::move(v);
    }

    Value lookup(const std::string& name) const {
        for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
            if (auto it = scope->find(name); it != scope->end()) return it->second;
        return Value(Undefined{name});
    }

    Value eval(const Expr& e) {
        spend_at(e.line, 1);
        switch (e.kind) {
            case Expr::Kind::literal: return e.value;
            case Expr::Kind::name: return lookup(e.text);
            case Expr::Kind::list: {
                std::vector<Value> items;
                for (const ExprPtr& a : e.args) items.push_back(eval(*a));
                return located(e.line, [&] { return Value(std::move(items)); });
            }
            case Expr::Kind::dict: return dict(e);
            case Expr::Kind::attribute: return attribute(e, eval(*e.args[0]));
            case Expr::Kind::item: {
                Value base = eval(*e.args[0]);
                return item(e, base, eval(*e.args[1]));
            }
            case Expr::Kind::slice: return slice(e);
            case Expr::Kind::logical_not: return Value(!truth(eval(*e.args[0])));
            case Expr::Kind::logical_and: {
                Value left = eval(*e.args[0]);
                return truth(left) ? eval(*e.args[1]) : left;
            }
            case Expr::Kind::logical_or: {
                Value left = eval(*e.args[0]);
                return truth(left) ? left : eval(*e.args[1]);
            }
            case Expr::Kind::negate:
            case Expr::Kind::positive: return sign(e, eval(*e.args[0]));
            case Expr::Kind::binary: {
                Value left = eval(*e.args[0]);
                return binary(e, left, eval(*e.args[1]));
            }
            case Expr::Kind::compare: return compare(e);
            case Expr::Kind::conditional:
                if (truth(eval(*e.args[1]))) return eval(*e.args[0]);
                return e.args[2] ? eval(*e.args[2]) : Value(Undefined{"the missing else"});
            case Expr::Kind::filter:
            case Expr::Kind::test:
            case Expr::Kind::method:
            case Expr::Kind::function: return call(e);
        }
        defect("jinja: unknown expression");
    }

    Value dict(const Expr& e) {
        std::vector<std::pair<std::string, Value>> members;
        for (size_t i = 0; i < e.args.size(); i += 2) {
            Value key = eval(*e.args[i]);
            if (!key.is(Kind::string))
                fail(e.line, "a dict's key must be a string, found ", name_of(key.kind()));
            Value value = eval(*e.args[i + 1]);
            auto same = [&](const auto& member) { return member.first == key.string(); };
            spend_at(e.line, members.size());
            if (auto it = std::find_if(members.begin(), members.end(), same); it != members.end())
                it->second = std::move(value);
            else
                members.emplace_back(key.string(), std::move(value));
        }
        return located(e.line, [&] { return Value(std::move(members)); });
    }

    Value loop_attribute(const Expr& e, const Loop& l) {
        const auto n = static_cast<int64_t>(l.items.size()), i = static_cast<int64_t>(l.index);
        const std::string& name = e.text;
        if (name == "index") return Value(i + 1);
        if (name == "index0") return Value(i);
        if (name == "revindex") return Value(n - i);
        if (name == "revindex0") return Value(n - i - 1);
        if (name == "first") return Value(i == 0);
        if (name == "last") return Value(i + 1 == n);
        if (name == "length") return Value(n);
        if (name == "depth") return Value(int64_t{l.depth});
        if (name == "depth0") return Value(int64_t{l.depth - 1});
        if (name == "previtem" && i > 0) return l.items[l.index - 1];
        if (name == "nextitem" && i + 1 < n) return l.items[l.index + 1];
        return Value(Undefined{"loop." + name});
    }

    Value attribute(const Expr& e, const Value& base) {
        switch (base.kind()) {
            case Kind::undefined: fail(e.line, "'", base.undefined_name(), "' is undefined");
            case Kind::loop: return loop_attribute(e, base.loop());
            case Kind::space: {
                auto it = base.space().members.find(e.text);
                return it == base.space().members.end() ? Value(Undefined{e.text}) : it->second;
            }
            case Kind::dict:
                spend_at(e.line, base.members().size());
                if (const Value* v = base.member(e.text)) return *v;
                [[fallthrough]];
            default: return Value(Undefined{e.text});
        }
    }

    Value item(const Expr& e, const Value& base, const Value& key) {
        if (base.is(Kind::undefined)) fail(e.line, "'", base.undefined_name(), "' is undefined");
        if (base.is(Kind::dict) && key.is(Kind::string)) {
            spend_at(e.line, base.members().size());
            if (const Value* v = base.member(key.string())) return *v;
            return Value(Undefined{key.string()});
        }
        if ((base.is(Kind::list) || base.is(Kind::string)) && key.is(Kind::integer)) {
            std::vector<std::string_view> points;
            if (base.is(Kind::string)) {
                spend_at(e.line, base.string().size());
                points = points_of(base.string());
            }
            const auto n = static_cast<int64_t>(base.is(Kind::list) ? base.items().size() : points.size());
            int64_t i = key.integer() < 0 ? key.integer() + n : key.integer();
            if (i < 0 || i >= n) return Value(Undefined{cat("item ", key.integer())});
            return base.is(Kind::list) ? base.items()[static_cast<size_t>(i)]
                                       : Value(points[static_cast<size_t>(i)]);
        }
        return Value(Undefined{"an item"});
    }

    // Python's slice: indices are clamped, negative ones count from the end, a negative step walks backwards.
    Value slice(const Expr& e) {
        Value base = eval(*e.args[0]);
        int64_t part[3] = {0, 0, 1};
        bool given[3] = {};
        for (size_t k = 0; k < 3; ++k) {
            if (!e.args[k + 1]) continue;
            Value v = eval(*e.args[k + 1]);
            if (v.is(Kind::none)) continue;
            if (!v.is(Kind::integer)) fail(e.line, "a slice needs integers, found ", name_of(v.kind()));
            part[k] = v.integer();
            given[k] = true;
        }
        if (part[2] == 0) fail(e.line, "a slice with step zero");
        if (!base.is(Kind::list) && !base.is(Kind::string))
            fail(e.line, "a ", name_of(base.kind()), " cannot be sliced");
        std::vector<Value> items = located(e.line, [&] { return iterate(base, budget_); });
        const auto n = static_cast<int64_t>(items.size());
        const int64_t step = part[2], low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
        auto clamp = [&](int64_t i) { return std::min(std::max(i < 0 ? i + n : i, low), high); };
        const int64_t start = given[0] ? clamp(part[0]) : step > 0 ? 0 : n - 1;
        const int64_t stop = given[1] ? clamp(part[1]) : step > 0 ? n : -1;
        std::vector<Value> out;
        for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
            out.push_back(items[static_cast<size_t>(i)]);
            if (__builtin_add_overflow(i, step, &i)) break;
        }
        if (base.is(Kind::list)) return Value(std::move(out));
        std::string s;
        for (const Value& v : out) s += v.string();
        return Value(std::move(s));
    }

    Value sign(const Expr& e, const Value& v) {
        if (!v.is_numeric()) fail(e.line, "a number is needed, found ", name_of(v.kind()));
        if (v.is(Kind::number)) return Value(e.kind == Expr::Kind::negate ? -v.number() : v.number());
        int64_t n = v.integer();
        if (e.kind == Expr::Kind::negate && __builtin_sub_overflow(int64_t{0}, n, &n))
            fail(e.line, "integer overflow");
        return Value(n);
    }

    Value binary(const Expr& e, const Value& a, const Value& b) {
        const std::string& op = e.text;
        if (op == "~")
            return located(e.line, [&] { return Value(to_text(a, budget_) + to_text(b, budget_)); });
        if (op == "+" && a.is(Kind::string) && b.is(Kind::string)) {
            spend_at(e.line, a.string().size() + b.string().size());
            return Value(a.string() + b.string());
        }
        if (op == "+" && a.is(Kind::list) && b.is(Kind::list)) {
            spend_at(e.line, a.items().size() + b.items().size());
            std::vector<Value> items = a.items();
            items.insert(items.end(), b.items().begin(), b.items().end());
            return located(e.line, [&] { return Value(std::move(items)); });
        }
        if (op == "*" && a.is(Kind::string) && b.is(Kind::integer))
            return repeated(e, a.string(), b.integer());
        if (op == "*" && a.is(Kind::integer) && b.is(Kind::string))
            return repeated(e, b.string(), a.integer());
        for (const Value* v : {&a, &b})
            if (v->is(Kind::undefined)) fail(e.line, "'", v->undefined_name(), "' is undefined");
        if (!a.is_numeric() || !b.is_numeric())
            fail(e.line, "\"", op, "\" of ", name_of(a.kind()), " and ", name_of(b.kind()),
                 " is not supported");
        return arithmetic(e, a, b);
    }
    Value repeated(const Expr& e, const std::string& s, int64_t times) {
        std::string out;
        for (int64_t i = 0; i < times && !s.empty(); ++i) {
            spend_at(e.line, s.size());
            out += s;
        }
        return Value(std::move(out));
    }

    Value arithmetic(const Expr& e, const Value& a, const Value& b) {
        const std::string& op = e.text;
        if (op == "/" || a.is(Kind::number) || b.is(Kind::number)) {
            const double x = a.number(), y = b.number();
            if (op == "+") return Value(x + y);
            if (op == "-") return Value(x - y);
            if (op == "*") return Value(x * y);
            if (y == 0) fail(e.line, "division by zero");
            if (op == "/") return Value(x / y);
            if (op == "//") return Value(std::floor(x / y));
            double r = std::fmod(x, y);
            return Value(r != 0 && (r < 0) != (y < 0) ? r + y : r);
        }
        const int64_t x = a.integer(), y = b.integer();
        int64_t n = 0;
        bool overflow = false;
        if (op == "+") {
            overflow = __builtin_add_overflow(x, y, &n);
        } else if (op == "-") {
            overflow = __builtin_sub_overflow(x, y, &n);
        } else if (op == "*") {
            overflow = __builtin_mul_overflow(x, y, &n);
        } else {
            if (y == 0) fail(e.line, "division by zero");
            if (y == -1) {
                overflow = op == "//" && __builtin_sub_overflow(int64_t{0}, x, &n);
            } else {
                const bool differs = x % y != 0 && (x < 0) != (y < 0);
                n = op == "//" ? x / y - differs : x % y + (differs ? y : 0);
            }
        }
        if (overflow) fail(e.line, "integer overflow");
        return Value(n);
    }

    Value compare(const Expr& e) {
        Value left = eval(*e.args[0]);
        for (size_t i = 0; i < e.ops.size(); ++i) {
            Value right = eval(*e.args[i + 1]);
            const std::string& op = e.ops[i];
            bool holds = located(e.line, [&] {
                if (op == "==") return equal(left, right, budget_);
                if (op == "!=") return !equal(left, right, budget_);
                if (op == "in") return contains(right, left, budget_);
                if (op == "not in") return !contains(right, left, budget_);
                const int order = compare_order(left, right);
                return op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
            });
            if (!holds) return Value(false);
            left = std::move(right);
        }
        return Value(true);
    }

    Value call(const Expr& e) {
        const size_t first = e.kind == Expr::Kind::function ? 0 : 1;
        std::vector<Value> values(e.args.size());
        Arguments arguments;
        for (size_t i = 0; i < e.args.size(); ++i) {
            if (e.args[i]) values[i] = eval(*e.args[i]);
            if (i >= first) arguments.push_back(e.args[i] ? &values[i] : nullptr);
        }
        if (e.kind == Expr::Kind::function && e.text == "namespace") {
            auto space = std::make_shared<Namespace>();
            for (size_t i = 0; i < e.ops.size(); ++i) {
                if (values[i].is(Kind::space) || values[i].is(Kind::loop))
                    fail(e.line, "a ", name_of(values[i].kind()), " inside a namespace");
                space->members[e.ops[i]] = std::move(values[i]);
            }
            return Value(std::move(space));
        }
        return located(e.line, [&]() -> Value {
            switch (e.kind) {
                case Expr::Kind::filter: return call_filter(e.text, values[0], arguments, budget_);
                case Expr::Kind::test: return Value(call_test(e.text, values[0], arguments, budget_));
                case Expr::Kind::method: return call_method(e.text, values[0], arguments, budget_);
                default: return call_function(e.text, arguments, budget_);
            }
        });
    }

    const std::string& source_;
    std::vector<Scope> scopes_;
    std::string out_;
    int64_t budget_ = work_limit;
    int loop_depth_ = 0;
    bool located_ = false;
};

}  // namespace jinja

ChatTemplate::ChatTemplate(std::string_view text, const std::string& source)
    : program_(std::make_shared<const jinja::Program>(jinja::parse_template(text, source))) {}

std::string ChatTemplate::render(const Json& messages, bool add_generation_prompt,
                                 const Json& variables) const {
    for (const Json& m : messages.items()) m.members();
    jinja::Renderer renderer(*program_);
    renderer.define("tools", jinja::Value());
    renderer.define("documents", jinja::Value());
    if (!variables.is_null())
        for (const auto& [name, value] : variables.members())
            renderer.define(name, jinja::Value::from(value));
    renderer.define("messages", jinja::Value::from(messages));
    renderer.define("add_generation_prompt", jinja::Value(add_generation_prompt));
    return renderer.run(program_->body);
}

}  // namespace fp8rl
