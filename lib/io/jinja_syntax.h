// io/jinja_syntax: a chat template after parsing. Every call has been looked up and its arguments put into
// the order of its signature, so that rendering meets nothing unknown.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "io/jinja_value.h"

namespace fp8rl::jinja {

enum class TokenKind {
    text,
    output_begin,
    output_end,
    block_begin,
    block_end,
    name,
    integer,
    number,
    string,
    op,
    end
};
struct Token {
    TokenKind kind;
    std::string text;  // a string's contents, unescaped
    int line;
};
// `source` stands in messages. Applies trim_blocks, lstrip_blocks and the `-` and `+` marks.
std::vector<Token> tokenize(std::string_view text, const std::string& source);

// What may be called, and with which arguments. A method's receiver and a filter's input are not listed.
struct Signature {
    const char* name;
    int needed;
    std::vector<const char*> parameters;  // in order; also their keywords
};
const std::vector<Signature>& filters();
const std::vector<Signature>& tests();
const std::vector<Signature>& methods();
const std::vector<Signature>& functions();
bool is_loop_attribute(std::string_view name);  // loop.index and its like

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
    enum class Kind {
        literal,      // value
        name,         // text
        list,         // args
        dict,         // keys and values in turn
        attribute,    // args[0].text
        item,         // args[0][args[1]]
        slice,        // args[0][args[1]:args[2]:args[3]], each of the three may be null
        negate,       // -args[0]
        positive,     // +args[0]
        logical_not,  // not args[0]
        logical_and,
        logical_or,
        binary,       // args[0] text args[1]
        compare,      // args[0] ops[0] args[1] ops[1] args[2] ...
        conditional,  // args[0] if args[1] else args[2], which may be null
        filter,       // args[0] | text(args[1...])
        test,         // args[0] is text(args[1...])
        method,       // args[0].text(args[1...])
        function,     // text(args[0...]); for namespace, ops holds the names
    };
    Kind kind;
    int line;
    std::string text;
    Value value;
    std::vector<ExprPtr> args;  // null: not given
    std::vector<std::string> ops;
    int depth = 1;
};

struct Stmt;
using Body = std::vector<Stmt>;

struct Stmt {
    enum class Kind {
        text,    // text
        output,  // exprs[0]
        branch,  // if exprs[0]: bodies[0], elif exprs[1]: bodies[1], ..., else: the body past the last expr
        loop,    // for names in exprs[0] if exprs[1] (may be null): bodies[0], else bodies[1]
        set,     // names[0] = exprs[0]
        set_member,  // names[0].names[1] = exprs[0]
        set_block,   // names[0] = what bodies[0] renders
    };
    Kind kind;
    int line;
    std::string text;
    std::vector<std::string> names;
    std::vector<ExprPtr> exprs;
    std::vector<Body> bodies;
};

struct Program {
    std::string source;
    Body body;
};

Program parse_template(std::string_view text, const std::string& source);

// The message of a rendering error names the line.
template <class... Parts>
[[noreturn]] void refuse_at(const std::string& source, int line, const Parts&... parts) {
    refuse(source, ":", line, ": ", parts...);
}

}  // namespace fp8rl::jinja
