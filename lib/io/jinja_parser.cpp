// Recursive descent with jinja2's precedence: conditional, or, and, not, comparison, + -, ~, * / // %, unary,
// postfix, filters and tests. Whatever the tables of calls do not hold is refused here, with its line.
#include <algorithm>
#include <array>

#include "core/text.h"
#include "io/jinja_syntax.h"

namespace fp8rl::jinja {

static constexpr int max_depth = 100;

class Parser {
  public:
    Parser(std::string_view text, const std::string& source)
        : source_(source), tokens_(tokenize(text, source)) {}

    Body run() {
        Body body = statements({});
        return body;
    }

  private:
    // --- tokens
    const Token& now() const { return tokens_[at_]; }
    const Token& take() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
    bool is_op(std::string_view s) const { return now().kind == TokenKind::op && now().text == s; }
    bool is_word(std::string_view s) const { return now().kind == TokenKind::name && now().text == s; }
    bool skip_op(std::string_view s) { return is_op(s) ? (take(), true) : false; }
    bool skip_word(std::string_view s) { return is_word(s) ? (take(), true) : false; }
    template <class... Parts>
    [[noreturn]] void fail(const Parts&... parts) const {
        refuse_at(source_, now().line, parts...);
    }
    std::string shown() const {
        switch (now().kind) {
            case TokenKind::text: return "text";
            case TokenKind::output_begin: return "{{";
            case TokenKind::output_end: return "}}";
            case TokenKind::block_begin: return "{%";
            case TokenKind::block_end: return "%}";
            case TokenKind::end: return "the end of the template";
            default: return "\"" + text::valid_utf8(now().text) + "\"";
        }
    }
    void expect_op(std::string_view s) {
        if (!skip_op(s)) fail("\"", s, "\" is expected, found ", shown());
    }
    void expect(TokenKind kind, const char* what) {
        if (now().kind != kind) fail(what, " is expected, found ", shown());
        take();
    }
    std::string expect_name(const char* what) {
        static constexpr std::array<std::string_view, 12> reserved = {
            "true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if"};
        if (now().kind != TokenKind::name) fail(what, " is expected, found ", shown());
        if (std::find(reserved.begin(), reserved.end(), now().text) != reserved.end())
            fail(what, " is expected, found the word ", now().text);
        return take().text;
    }
    struct Nest {
        explicit Nest(Parser& p) : parser(p) {
            if (++p.depth_ > max_depth) p.fail("nested more than ", max_depth, " levels deep");
        }
        ~Nest() { --parser.depth_; }
        Parser& parser;
    };

    // --- statements, up to a block whose word is one of `ends` (that word is then the current token)
    Body statements(const std::vector<std::string_view>& ends) {
        Nest nest(*this);
        Body body;
        const int line = now().line;
        for (;;) {
            if (now().kind == TokenKind::end) {
                if (!ends.empty()) refuse_at(source_, line, "the block has no ", ends.back());
                return body;
            }
            if (now().kind == TokenKind::text) {
                Stmt s{Stmt::Kind::text, now().line, now().text, {}, {}, {}};
                take();
                body.push_back(std::move(s));
            } else if (now().kind == TokenKind::output_begin) {
                Stmt s{Stmt::Kind::output, now().line, "", {}, {}, {}};
                take();
                s.exprs.push_back(expression());
                expect(TokenKind::output_end, "}}");
                body.push_back(std::move(s));
            } else {
                expect(TokenKind::block_begin, "{%");
                if (now().kind == TokenKind::name &&
                    std::find(ends.begin(), ends.end(), now().text) != ends.end())
                    return body;
                body.push_back(statement());
            }
        }
    }

    Stmt statement() {
        const int line = now().line;
        if (skip_word("for")) return loop(line);
        if (skip_word("if")) return branch(line);
        if (skip_word("set")) return assignment(line);
        if (now().kind == TokenKind::name)
            fail("the statement \"", now().text,
                 "\" is not supported or not expected here; for, if and set are");
        fail("a statement is expected, found ", shown());
    }
    void end_block() { expect(TokenKind::block_end, "%}"); }

    Stmt loop(int line) {
        Stmt s{Stmt::Kind::loop, line, "", {}, {}, {}};
        do s.names.push_back(expect_name("a loop variable"));
        while (skip_op(","));
        if (!skip_word("in")) fail("\"in\" is expected, found ", shown());
        s.exprs.push_back(disjunction());
        s.exprs.push_back(skip_word("if") ? expression() : nullptr);
        if (is_word("recursive")) fail("recursive loops are not supported");
        end_block();
        s.bodies.push_back(statements({"else", "endfor"}));
        if (skip_word("else")) {
            end_block();
            s.bodies.push_back(statements({"endfor"}));
        }
        take();
        end_block();
        return s;
    }

    Stmt branch(int line) {
        Stmt s{Stmt::Kind::branch, line, "", {}, {}, {}};
        do {
            s.exprs.push_back(expression());
            end_block();
            s.bodies.push_back(statements({"elif", "else", "endif"}));
        } while (skip_word("elif"));
        if (skip_word("else")) {
            end_block();
            s.bodies.push_back(statements({"endif"}));
        }
        take();
        end_block();
        return s;
    }

    Stmt assignment(int line) {
        Stmt s{Stmt::Kind::set, line, "", {}, {}, {}};
        s.names.push_back(expect_name("a variable"));
        if (skip_op(".")) {
            s.kind = Stmt::Kind::set_member;
            s.names.push_back(expect_name("a member of the namespace"));
        }
        if (is_op(",")) fail("set with several variables is not supported");
        if (skip_op("=")) {
            s.exprs.push_back(expression());
            end_block();
            return s;
        }
        if (s.kind == Stmt::Kind::set_member || now().kind != TokenKind::block_end)
            fail("\"=\" is expected, found ", shown());
        s.kind = Stmt::Kind::set_block;
        end_block();
        s.bodies.push_back(statements({"endset"}));
        take();
        end_block();
        return s;
    }

    // --- expressions
    ExprPtr make(Expr::Kind kind, int line, std::string text = "") const {
        auto e = std::make_unique<Expr>();
        e->kind = kind;
        e->line = line;
        e->text = std::move(text);
        return e;
    }
    // The depth counts chains too (a + b + c ...): rendering recurses over them.
    void add(Expr& e, ExprPtr child) const {
        if (child) {
            e.depth = std::max(e.depth, child->depth + 1);
            if (e.depth > 2 * max_depth) fail("an expression of more than ", 2 * max_depth, " levels");
        }
        e.args.push_back(std::move(child));
    }
    ExprPtr unary(Expr::Kind kind, int line, ExprPtr a) const {
        ExprPtr e = make(kind, line);
        add(*e, std::move(a));
        return e;
    }
    ExprPtr binary(Expr::Kind kind, int line, std::string op, ExprPtr a, ExprPtr b) const {
        ExprPtr e = make(kind, line, std::move(op));
        add(*e, std::move(a));
        add(*e, std::move(b));
        return e;
    }

    ExprPtr expression() {
        Nest nest(*this);
        ExprPtr value = disjunction();
        while (is_word("if")) {
            ExprPtr e = make(Expr::Kind::conditional, take().line);
            add(*e, std::move(value));
            add(*e, disjunction());
            add(*e, skip_word("else") ? expression() : nullptr);
            value = std::move(e);
        }
        return value;
    }
    ExprPtr disjunction() {
        ExprPtr left = conjunction();
        while (is_word("or")) {
            const int line = take().line;
            left = binary(Expr::Kind::logical_or, line, "", std::move(left), conjunction());
        }
        return left;
    }
    ExprPtr conjunction() {
        ExprPtr left = negation();
        while (is_word("and")) {
            const int line = take().line;
            left = binary(Expr::Kind::logical_and, line, "", std::move(left), negation());
        }
        return left;
    }
    ExprPtr negation() {
        Nest nest(*this);
        if (!is_word("not")) return comparison();
        const int line = take().line;
        return unary(Expr::Kind::logical_not, line, negation());
    }
    ExprPtr comparison() {
        ExprPtr left = sum();
        ExprPtr chain;
        for (;;) {
            std::string op;
            const int line = now().line;
            for (std::string_view s : {"==", "!=", "<", "<=", ">", ">="})
                if (is_op(s)) op = s;
            if (is_word("in")) op = "in";
            if (is_word("not") && at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind == TokenKind::name &&
                tokens_[at_ + 1].text == "in") {
                op = "not in";
                take();
            }
            if (op.empty()) break;
            take();
            if (!chain) {
                chain = make(Expr::Kind::compare, line);
                add(*chain, std::move(left));
            }
            chain->ops.push_back(op);
            add(*chain, sum());
        }
        return chain ? std::move(chain) : std::move(left);
    }
    template <class Next>
    ExprPtr chain_of(std::initializer_list<std::string_view> ops, Next next) {
        ExprPtr left = next();
        for (;;) {
            auto op = std::find_if(ops.begin(), ops.end(), [&](std::string_view s) { return is_op(s); });
            if (op == ops.end()) return left;
            const int line = take().line;
            left = binary(Expr::Kind::binary, line, std::string(*op), std::move(left), next());
        }
    }
    ExprPtr sum() {
        return chain_of({"+", "-"}, [&] { return concatenation(); });
    }
    ExprPtr concatenation() {
        return chain_of({"~"}, [&] { return product(); });
    }
    ExprPtr product() {
        return chain_of({"*", "/", "//", "%"}, [&] { return signed_value(true); });
    }
    ExprPtr signed_value(bool with_filters) {
        Nest nest(*this);
        ExprPtr e;
        const int line = now().line;
        if (skip_op("-"))
            e = unary(Expr::Kind::negate, line, signed_value(false));
        else if (skip_op("+"))
            e = unary(Expr::Kind::positive, line, signed_value(false));
        else
            e = primary();
        e = postfix(std::move(e));
        return with_filters ? filters_and_tests(std::move(e)) : std::move(e);
    }

    ExprPtr primary() {
        const int line = now().line;
        ExprPtr e = make(Expr::Kind::literal, line);
        switch (now().kind) {
            case TokenKind::string: {
                std::string s = take().text;
                while (now().kind == TokenKind::string) s += take().text;
                e->value = Value(std::move(s));
                return e;
            }
            case TokenKind::integer: {
                long long n = 0;
                if (!text::parse(now().text, n)) fail("the number ", now().text, " is too large");
                take();
                e->value = Value(int64_t{n});
                return e;
            }
            case TokenKind::number: {
                double x = 0;
                if (!text::parse(now().text, x)) fail("the number ", now().text, " is out of range");
                take();
                e->value = Value(x);
                return e;
            }
            case TokenKind::name: return word();
            default: break;
        }
        if (skip_op("(")) {
            e = expression();
            if (is_op(",")) fail("tuples are not supported");
            expect_op(")");
            return e;
        }
        if (skip_op("[")) {
            e = make(Expr::Kind::list, line);
            while (!is_op("]")) {
                add(*e, expression());
                if (!skip_op(",")) break;
            }
            expect_op("]");
            return e;
        }
        if (skip_op("{")) {
            e = make(Expr::Kind::dict, line);
            while (!is_op("}")) {
                add(*e, expression());
                expect_op(":");
                add(*e, expression());
                if (!skip_op(",")) break;
            }
            expect_op("}");
            return e;
        }
        fail("an expression is expected, found ", shown());
    }

    ExprPtr word() {
        const int line = now().line;
        const std::string name = now().text;
        ExprPtr e = make(Expr::Kind::literal, line);
        if (name == "true" || name == "True" || name == "false" || name == "False") {
            e->value = Value(name == "true" || name == "True");
            take();
            return e;
        }
        if (name == "none" || name == "None") {
            take();
            return e;
        }
        e = make(Expr::Kind::name, line, expect_name("a value"));
        if (!is_op("(")) return e;
        e->kind = Expr::Kind::function;
        arguments(*e, lookup(functions(), "function", name), name == "namespace");
        return e;
    }

    ExprPtr postfix(ExprPtr e) {
        for (;;) {
            const int line = now().line;
            if (skip_op(".")) {
                if (now().kind == TokenKind::integer) fail("an index after a dot is not supported; use [ ]");
                if (now().kind != TokenKind::name) fail("a name is expected after the dot, found ", shown());
                std::string name = take().text;
                const bool call = is_op("(");
                if (e->kind == Expr::Kind::name && e->text == "loop" && (call || !is_loop_attribute(name)))
                    refuse_at(source_, line, "loop.", name, " is not supported");
                ExprPtr outer = make(call ? Expr::Kind::method : Expr::Kind::attribute, line, name);
                add(*outer, std::move(e));
                e = std::move(outer);
                if (call) arguments(*e, lookup(methods(), "method", name), false);
            } else if (skip_op("[")) {
                e = subscript(std::move(e), line);
            } else if (is_op("(")) {
                fail("a call of this value is not supported");
            } else {
                return e;
            }
        }
    }
    ExprPtr subscript(ExprPtr base, int line) {
        ExprPtr parts[3];
        int colons = 0;
        while (!is_op("]")) {
            if (skip_op(":")) {
                if (++colons > 2) fail("a slice has at most three parts");
            } else if (parts[colons]) {
                fail("\"]\" is expected, found ", shown());
            } else {
                parts[colons] = expression();
            }
        }
        if (!colons && !parts[0]) fail("an index is expected");
        take();
        ExprPtr e = make(colons ? Expr::Kind::slice : Expr::Kind::item, line);
        add(*e, std::move(base));
        add(*e, std::move(parts[0]));
        if (colons) {
            add(*e, std::move(parts[1]));
            add(*e, std::move(parts[2]));
        }
        return e;
    }

    ExprPtr filters_and_tests(ExprPtr e) {
        for (;;) {
            const int line = now().line;
            if (skip_op("|")) {
                ExprPtr outer = make(Expr::Kind::filter, line, now().text);
                expect(TokenKind::name, "the name of a filter");
                const Signature& s = lookup(filters(), "filter", outer->text);
                add(*outer, std::move(e));
                arguments(*outer, s, false);
                e = std::move(outer);
            } else if (skip_word("is")) {
                const bool negated = skip_word("not");
                ExprPtr outer = make(Expr::Kind::test, line, now().text);
                expect(TokenKind::name, "the name of a test");
                const Signature& s = lookup(tests(), "test", outer->text);
                add(*outer, std::move(e));
                if (is_op("(") || s.parameters.empty())
                    arguments(*outer, s, false);
                else
                    add(*outer, postfix(primary()));
                e = negated ? unary(Expr::Kind::logical_not, line, std::move(outer)) : std::move(outer);
            } else {
                return e;
            }
        }
    }

    const Signature& lookup(const std::vector<Signature>& table, const char* what,
                            const std::string& name) const {
        std::string known;
        for (const Signature& s : table) {
            if (name == s.name) return s;
            known += (known.empty() ? "" : ", ") + std::string(s.name);
        }
        fail("the ", what, " \"", name, "\" is not supported; known are ", known);
    }

    // Puts the arguments into the order of the signature, null where one is not given.
    void arguments(Expr& e, const Signature& s, bool free_names) {
        std::vector<ExprPtr> given(s.parameters.size());
        size_t positional = 0;
        bool keywords = false;
        if (skip_op("(")) {
            while (!is_op(")")) {
                const bool keyword = now().kind == TokenKind::name && at_ + 1 < tokens_.size() &&
                                     tokens_[at_ + 1].kind == TokenKind::op && tokens_[at_ + 1].text == "=";
                if (keyword && free_names) {
                    e.ops.push_back(take().text);
                    take();
                    add(e, expression());
                } else if (keyword) {
                    const std::string name = take().text;
                    take();
                    size_t k = 0;
                    while (k < given.size() && name != s.parameters[k]) ++k;
                    if (k == given.size() || given[k])
                        fail(s.name, ": the argument ", name, " is not supported");
                    given[k] = expression();
                    keywords = true;
                } else {
                    if (keywords || positional >= given.size())
                        fail(s.name, ": at most ", given.size(), " arguments are supported");
                    given[positional++] = expression();
                }
                if (!skip_op(",")) break;
            }
            expect_op(")");
        }
        for (size_t k = 0; k < static_cast<size_t>(s.needed); ++k)
            if (!given[k]) fail(s.name, ": the argument ", s.parameters[k], " is missing");
        for (ExprPtr& argument : given) add(e, std::move(argument));
    }

    const std::string& source_;
    std::vector<Token> tokens_;
    size_t at_ = 0;
    int depth_ = 0;
};

Program parse_template(std::string_view text, const std::string& source) {
    Program p{source, {}};
    p.body = Parser(text, p.source).run();
    return p;
}

}  // namespace fp8rl::jinja
