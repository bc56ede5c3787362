// The lexer follows jinja2's: the newline after a block or comment goes (trim_blocks), blanks before one at
// the start of a line go (lstrip_blocks), `-` strips all whitespace on its side, `+` switches the two off;
// line ends become \n and one at the very end of the template is dropped.
#include <utf8proc.h>
#include <cstdint>

#include "core/text.h"
#include "io/jinja_syntax.h"

namespace fp8rl::jinja {

static std::string normal_newlines(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\r') {
            out += '\n';
            if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
        } else {
            out += text[i];
        }
    }
    if (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
}

static bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
  public:
    Lexer(std::string_view text, const std::string& source) : text_(normal_newlines(text)), source_(source) {}

    std::vector<Token> run() {
        while (at_ < text_.size()) template_text();
        tokens_.push_back({TokenKind::end, "", line_});
        return std::move(tokens_);
    }

  private:
    std::string_view rest() const { return std::string_view(text_).substr(at_); }
    bool sees(std::string_view s) const { return rest().starts_with(s); }
    void advance(size_t n) {
        for (size_t i = 0; i < n; ++i) line_ += text_[at_ + i] == '\n';
        at_ += n;
        line_starts_ = at_ > 0 && text_[at_ - 1] == '\n';
    }
    void skip_spaces() { advance(rest().size() - strip(rest(), Side::left).size()); }

    // Text up to the next tag, then the tag.
    void template_text() {
        size_t tag = at_;
        while (tag < text_.size() &&
               !(text_[tag] == '{' && tag + 1 < text_.size() &&
                 (text_[tag + 1] == '{' || text_[tag + 1] == '%' || text_[tag + 1] == '#')))
            ++tag;
        if (tag >= text_.size()) {
            push_text(rest());
            advance(rest().size());
            return;
        }
        const char kind = text_[tag + 1];
        const char mark = tag + 2 < text_.size() ? text_[tag + 2] : ' ';
        std::string_view before = text_before(tag, mark, kind != '{');
        push_text(before);
        advance(tag - at_);
        const int line = line_;
        advance(mark == '-' || mark == '+' ? 3 : 2);
        if (kind == '#')
            comment(line);
        else if (kind == '%' && raw_follows())
            raw(line);
        else
            tag_tokens(kind == '%', line);
    }

    // The text from here to a tag, less what the tag takes away from its left.
    std::string_view text_before(size_t tag, char mark, bool block) const {
        std::string_view s = rest().substr(0, tag - at_);
        if (mark == '-') return strip(s, Side::right);
        if (mark == '+' || !block) return s;
        size_t line_begin = s.rfind('\n') + 1;  // npos + 1 is 0
        if ((line_begin > 0 || line_starts_) && strip(s.substr(line_begin), Side::left).empty())
            return s.substr(0, line_begin);
        return s;
    }

    void push_text(std::string_view s) {
        if (!s.empty()) tokens_.push_back({TokenKind::text, std::string(s), line_});
    }

    // The end of a block or comment: what follows it is trimmed as the mark says.
    bool block_end(char closing) {
        const char plain[] = {closing, '}', 0};
        if (sees(std::string("-") + plain)) {
            advance(3);
            skip_spaces();
        } else if (sees(std::string("+") + plain)) {
            advance(3);
        } else if (sees(plain)) {
            advance(2);
            if (sees("\n")) advance(1);
        } else {
            return false;
        }
        return true;
    }

    void comment(int line) {
        while (at_ < text_.size()) {
            if (block_end('#')) return;
            advance(1);
        }
        refuse_at(source_, line, "the comment has no end");
    }

    bool raw_follows() {
        std::string_view s = strip(rest(), Side::left);
        if (!s.starts_with("raw")) return false;
        s = strip(s.substr(3), Side::left);
        return s.starts_with("%}") || s.starts_with("-%}");
    }
    // Everything up to endraw is text.
    void raw(int line) {
        skip_spaces();
        advance(3);
        skip_spaces();
        const bool strips = sees("-");
        advance(strips ? 3 : 2);
        if (strips) skip_spaces();
        for (size_t tag = at_; (tag = text_.find("{%", tag)) != std::string::npos; ++tag) {
            std::string_view inside = std::string_view(text_).substr(tag + 2);
            const char mark = inside.empty() ? ' ' : inside[0];
            if (mark == '-' || mark == '+') inside.remove_prefix(1);
            inside = strip(inside, Side::left);
            if (!inside.starts_with("endraw")) continue;
            push_text(text_before(tag, mark, true));
            advance(text_.size() - inside.size() + 6 - at_);
            skip_spaces();
            if (!block_end('%')) refuse_at(source_, line_, "%} is expected after endraw");
            return;
        }
        refuse_at(source_, line, "raw has no endraw");
    }

    void tag_tokens(bool block, int line) {
        tokens_.push_back({block ? TokenKind::block_begin : TokenKind::output_begin, "", line});
        std::string open;  // brackets to be closed; the tag cannot end inside them
        for (;;) {
            skip_spaces();
            if (at_ >= text_.size()) refuse_at(source_, line, "the tag has no end");
            const int here = line_;
            if (open.empty()) {
                if (block ? block_end('%') : output_end()) {
                    tokens_.push_back({block ? TokenKind::block_end : TokenKind::output_end, "", here});
                    return;
                }
            }
            const char c = text_[at_];
            if (name_start(c))
                name();
            else if (digit(c))
                number();
            else if (c == '\'' || c == '"')
                string(c);
            else
                op(open);
        }
    }

    bool output_end() {
        if (sees("-}}")) {
            advance(3);
            skip_spaces();
            return true;
        }
        if (!sees("}}")) return false;
        advance(2);
        return true;
    }

    void take(TokenKind kind, size_t n) {
        tokens_.push_back({kind, text_.substr(at_, n), line_});
        advance(n);
    }
    void name() {
        size_t n = 1;
        while (at_ + n < text_.size() && (name_start(text_[at_ + n]) || digit(text_[at_ + n]))) ++n;
        take(TokenKind::name, n);
    }
    void number() {
        auto digits_at = [&](size_t n) { return at_ + n < text_.size() && digit(text_[at_ + n]); };
        size_t n = 0;
        while (digits_at(n)) ++n;
        bool fraction = false;
        if (at_ + n < text_.size() && text_[at_ + n] == '.' && digits_at(n + 1)) {
            fraction = true;
            ++n;
            while (digits_at(n)) ++n;
        }
        if (at_ + n < text_.size() && (text_[at_ + n] == 'e' || text_[at_ + n] == 'E')) {
            size_t e = n + 1;
            if (at_ + e < text_.size() && (text_[at_ + e] == '+' || text_[at_ + e] == '-')) ++e;
            if (digits_at(e)) {
                fraction = true;
                for (n = e; digits_at(n);) ++n;
            }
        }
        if (at_ + n < text_.size() && name_start(text_[at_ + n]))
            refuse_at(source_, line_, "\"", text_.substr(at_, n + 1),
                      "\" is not a number this program reads");
        take(fraction ? TokenKind::number : TokenKind::integer, n);
    }

    void string(char quote) {
        const int line = line_;
        std::string out;
        size_t i = at_ + 1;
        while (i < text_.size() && text_[i] != quote) {
            if (text_[i] == '\\' && i + 1 < text_.size())
                i = escape(i + 1, out);
            else
                out += text_[i++];
        }
        if (i >= text_.size()) refuse_at(source_, line, "the string has no end");
        advance(i + 1 - at_);
        tokens_.push_back({TokenKind::string, std::move(out), line});
    }

    // Python's escapes; `i` is at the character after the backslash, the result past the escape.
    size_t escape(size_t i, std::string& out) {
        static constexpr std::string_view from = "\\'\"abfnrtv", to = "\\'\"\a\b\f\n\r\t\v";
        const char c = text_[i];
        if (size_t k = from.find(c); k != std::string_view::npos) {
            out += to[k];
            return i + 1;
        }
        if (c == '\n') return i + 1;
        if (c == 'x' || c == 'u' || c == 'U') {
            const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
            return code_point(i + 1, n, 16, out);
        }
        if (c >= '0' && c <= '7') {
            size_t n = 1;
            while (n < 3 && i + n < text_.size() && text_[i + n] >= '0' && text_[i + n] <= '7') ++n;
            return code_point(i, n, 8, out);
        }
        out += '\\';
        out += c;
        return i + 1;
    }
    size_t code_point(size_t i, size_t digits, int base, std::string& out) {
        uint64_t code = 0;
        for (size_t k = 0; k < digits; ++k) {
            const char c = i + k < text_.size() ? text_[i + k] : ' ';
            int d = digit(c)               ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : 99;
            if (d >= base) refuse_at(source_, line_, "a bad escape in a string");
            code = code * static_cast<uint64_t>(base) + static_cast<uint64_t>(d);
        }
        if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000))
            refuse_at(source_, line_, "an escape in a string is no character");
        utf8proc_uint8_t buffer[4];
        auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), buffer);
        out.append(reinterpret_cast<char*>(buffer), static_cast<size_t>(n));
        return i + digits;
    }

    void op(std::string& open) {
        static constexpr std::string_view two[] = {"==", "!=", ">=", "<=", "//"};
        static constexpr std::string_view one = "+-/*%~[](){}><=.:|,";
        if (sees("**")) refuse_at(source_, line_, "the operator ** is not supported");
        for (std::string_view s : two)
            if (sees(s)) return take(TokenKind::op, 2);
        const char c = text_[at_];
        if (one.find(c) == std::string_view::npos)
            refuse_at(source_, line_, "unexpected character \"",
                      text::valid_utf8(rest().substr(0, next_point(rest(), 0))), "\"");
        if (c == '(' || c == '[' || c == '{') {
            open += c == '(' ? ')' : c == '[' ? ']' : '}';
        } else if (c == ')' || c == ']' || c == '}') {
            if (open.empty() || open.back() != c) refuse_at(source_, line_, "unexpected \"", c, "\"");
            open.pop_back();
        }
        take(TokenKind::op, 1);
    }

    const std::string text_;
    const std::string& source_;
    size_t at_ = 0;
    int line_ = 1;
    bool line_starts_ = true;
    std::vector<Token> tokens_;
};

std::vector<Token> tokenize(std::string_view text, const std::string& source) {
    return Lexer(text, source).run();
}

}  // namespace fp8rl::jinja
