#include "io/bpe.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <queue>

#include "core/error.h"
#include "core/text.h"
#include "io/gguf.h"

namespace fp8rl {

// Unicode's White_Space, spelled out: what \s means differs between regex libraries.
#define SPACE \
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})"
#define SPACE_TAIL "[" SPACE "]+(?![^" SPACE "])|[" SPACE "]+"

static constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^)" SPACE R"(\p{L}\p{N}]+|)" SPACE_TAIL;
static constexpr const char* digit_pattern = R"(\p{N})";
#define GPT4_PATTERN(digits)                                                         \
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" digits "| ?[^" SPACE \
    R"(\p{L}\p{N}]+[\r\n]*|[)" SPACE R"(]*[\r\n]+|)" SPACE_TAIL
static constexpr const char* llama3_pattern = GPT4_PATTERN(R"(\p{N}{1,3})");
static constexpr const char* qwen2_pattern = GPT4_PATTERN(R"(\p{N})");

// A compiled pattern; matches never share state, so many threads may use one.
class BpeTokenizer::Pattern {
  public:
    explicit Pattern(const char* text) {
        int error = 0;
        PCRE2_SIZE at = 0;
        code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text), PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MATCH_INVALID_UTF, &error, &at, nullptr);
        check(code_ != nullptr, "tokenizer: pattern error ", error, " at ", at, " of ", text);
        // Without JIT (not built in, or no executable memory) the same matches come more slowly.
        pcre2_jit_compile(code_, PCRE2_JIT_COMPLETE);
    }
    ~Pattern() { pcre2_code_free(code_); }
    Pattern(const Pattern&) = delete;
    Pattern& operator=(const Pattern&) = delete;

    // Appends the matches and the gaps between them, in order.
    void split(std::string_view text, std::vector<std::string_view>& out) const {
        std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
            pcre2_match_data_create_from_pattern(code_, nullptr), pcre2_match_data_free);
        size_t at = 0;
        while (at < text.size()) {
            int n = pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at, 0,
                                match.get(), nullptr);
            if (n == PCRE2_ERROR_NOMATCH) break;
            check(n > 0, "tokenizer: matching failed with PCRE2 error ", n);
            const PCRE2_SIZE* range = pcre2_get_ovector_pointer(match.get());
            if (range[0] > at) out.push_back(text.substr(at, range[0] - at));
            out.push_back(text.substr(range[0], range[1] - range[0]));
            check(range[1] > at, "tokenizer: an empty match");
            at = range[1];
        }
        if (at < text.size()) out.push_back(text.substr(at));
    }

  private:
    pcre2_code* code_;
};

// GPT-2's alphabet: printable bytes stand for themselves, the other 68 for U+0100 and up.
static const std::array<uint32_t, 256>& byte_alphabet() {
    static const std::array<uint32_t, 256> table = [] {
        std::array<uint32_t, 256> t{};
        uint32_t next = 256;
        for (uint32_t b = 0; b < 256; ++b) {
            bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174);
            t[b] = printable ? b : next++;
        }
        return t;
    }();
    return table;
}

// The bytes that a token of the alphabet stands for; a token with any other character is its own text.
static std::string bytes_of_token(std::string_view token) {
    static const std::array<int16_t, 324> back = [] {
        std::array<int16_t, 324> t{};
        t.fill(-1);
        for (int b = 0; b < 256; ++b) t[byte_alphabet()[static_cast<size_t>(b)]] = static_cast<int16_t>(b);
        return t;
    }();
    std::string out;
    for (size_t i = 0; i < token.size();) {
        auto c = static_cast<uint8_t>(token[i]);
        uint32_t point = c;
        size_t n = 1;
        if (c >= 0x80) {
            if (c < 0xC2 || c > 0xC5 || i + 1 >= token.size()) return std::string(token);
            point = static_cast<uint32_t>((c & 31) << 6 | (static_cast<uint8_t>(token[i + 1]) & 63));
            n = 2;
        }
        if (point >= back.size() || back[point] < 0) return std::string(token);
        out += static_cast<char>(back[point]);
        i += n;
    }
    return out;
}

static uint64_t pair_key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

BpeTokenizer::BpeTokenizer(const BpeModel& model) {
    const std::string& source = model.source;
    if (model.pre == "gpt-2") {
        patterns_.push_back(std::make_unique<Pattern>(gpt2_pattern));
    } else if (model.pre == "smollm") {
        patterns_.push_back(std::make_unique<Pattern>(digit_pattern));
        patterns_.push_back(std::make_unique<Pattern>(gpt2_pattern));
    } else if (model.pre == "llama-bpe") {
        patterns_.push_back(std::make_unique<Pattern>(llama3_pattern));
        whole_pieces_ = true;
    } else if (model.pre == "qwen2") {
        patterns_.push_back(std::make_unique<Pattern>(qwen2_pattern));
        nfc_ = true;
    } else {
        refuse(source, ": tokenizer.ggml.pre: the pre-tokenizer \"", text::valid_utf8(model.pre),
               "\" is not supported; gpt-2, smollm, llama-bpe and qwen2 are");
    }
    if (model.tokens.empty() || model.tokens.size() > (1u << 24))
        refuse(source, ": a vocabulary of ", model.tokens.size(), " tokens");
    if (model.types.size() != model.tokens.size())
        refuse(source, ": ", model.tokens.size(), " tokens but ", model.types.size(), " token types");

    kind_ = "bpe " + model.pre;
    vocab_size_ = static_cast<int32_t>(model.tokens.size());
    types_ = model.types;
    std::unordered_map<std::string_view, int32_t> ids;
    ids.reserve(model.tokens.size());
    starts_.reserve(model.tokens.size() + 1);
    for (int32_t id = 0; id < vocab_size_; ++id) {
        std::string_view token = model.tokens[static_cast<size_t>(id)];
        auto type = types_[static_cast<size_t>(id)];
        if (!ids.emplace(token, id).second)
            refuse(source, ": the token \"", text::valid_utf8(token), "\" stands there twice (ids ",
                   ids[token], " and ", id, ")");
        starts_.push_back(bytes_.size());
        if (type == BpeModel::Type::normal) {
            std::string bytes = bytes_of_token(token);
            if (whole_pieces_) id_of_bytes_.emplace(bytes, id);
            bytes_ += bytes;
        } else {
            bytes_ += token;
            if (type != BpeModel::Type::unused && !token.empty())
                added_.push_back({std::string(token), id, type == BpeModel::Type::control});
        }
    }
    starts_.push_back(bytes_.size());
    std::stable_sort(added_.begin(), added_.end(),
                     [](const Added& a, const Added& b) { return a.text.size() > b.text.size(); });

    for (size_t b = 0; b < 256; ++b) {
        uint32_t point = byte_alphabet()[b];
        std::string c = point < 0x80 ? std::string(1, static_cast<char>(point))
                                     : std::string{static_cast<char>(0xC0 | point >> 6),
                                                   static_cast<char>(0x80 | (point & 63))};
        auto it = ids.find(c);
        byte_ids_[b] = it == ids.end() ? -1 : it->second;
    }
    add_merges(model, ids);

    auto checked = [&](int64_t id, const char* what) {
        if (id < -1 || id >= vocab_size_)
            refuse(source, ": ", what, ": ", id, " is outside the vocabulary of ", vocab_size_);
        return static_cast<int32_t>(id);
    };
    bos_id_ = checked(model.bos_id, "the bos id");
    eos_id_ = checked(model.eos_id, "the eos id");
    pad_id_ = checked(model.pad_id, "the padding id");
    add_bos_ = model.add_bos;
    if (add_bos_ && bos_id_ < 0) refuse(source, ": a bos token is to be added, but there is none");
    for (int64_t id : model.stop_ids)
        if (int32_t stop = checked(id, "a stop id"); stop >= 0) stop_ids_.push_back(stop);
    std::sort(stop_ids_.begin(), stop_ids_.end());
    stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
    chat_template_ = model.chat_template;
}

BpeTokenizer::~BpeTokenizer() = default;

void BpeTokenizer::add_merges(const BpeModel& model,
                              const std::unordered_map<std::string_view, int32_t>& ids) {
    merges_.reserve(model.merges.size());
    std::string product;
    for (size_t rank = 0; rank < model.merges.size(); ++rank) {
        std::string_view merge = model.merges[rank];
        auto bad = [&](const char* why) {
            refuse(model.source, ": merge ", rank, " \"", text::valid_utf8(merge), "\": ", why);
        };
        size_t space = merge.find(' ');
        if (space == std::string_view::npos || space == 0 || space + 1 == merge.size() ||
            merge.find(' ', space + 1) != std::string_view::npos)
            bad("is not two parts with a space between");
        auto left = ids.find(merge.substr(0, space)), right = ids.find(merge.substr(space + 1));
        if (left == ids.end() || right == ids.end()) bad("a part is not in the vocabulary");
        product.assign(merge.substr(0, space)).append(merge.substr(space + 1));
        auto whole = ids.find(product);
        if (whole == ids.end()) bad("what it makes is not in the vocabulary");
        merges_.emplace(pair_key(left->second, right->second),
                        Merge{static_cast<int32_t>(rank), whole->second});
    }
}

std::string_view BpeTokenizer::bytes_of(int32_t id) const {
    check(id >= 0 && id < vocab_size_, "tokenizer: id ", id, " of ", vocab_size_);
    size_t begin = starts_[static_cast<size_t>(id)], end = starts_[static_cast<size_t>(id) + 1];
    return std::string_view(bytes_).substr(begin, end - begin);
}

bool BpeTokenizer::is_special(int32_t id) const {
    check(id >= 0 && id < vocab_size_, "tokenizer: id ", id, " of ", vocab_size_);
    return types_[static_cast<size_t>(id)] == BpeModel::Type::control;
}

std::optional<int32_t> BpeTokenizer::special_id(std::string_view text) const {
    for (const Added& a : added_)
        if (a.text == text) return a.id;
    return std::nullopt;
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text, bool allow_special) const {
    std::vector<int32_t> out;
    bool starts[256] = {};
    for (const Added& a : added_)
        if (allow_special || !a.control) starts[static_cast<uint8_t>(a.text[0])] = true;
    size_t begin = 0;
    for (size_t i = 0; i < text.size();) {
        const Added* found = nullptr;
        if (starts[static_cast<uint8_t>(text[i])])
            for (const Added& a : added_)
                if ((allow_special || !a.control) && text.substr(i).starts_with(a.text)) {
                    found = &a;
                    break;
                }
        if (!found) {
            ++i;
            continue;
        }
        encode_text(text.substr(begin, i - begin), out);
        out.push_back(found->id);
        begin = i += found->text.size();
    }
    encode_text(text.substr(begin), out);
    return out;
}

static std::string composed(std::string_view text) {
    utf8proc_uint8_t* result = nullptr;
    auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                          static_cast<utf8proc_ssize_t>(text.size()), &result,
                          static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    // Ill-formed text has no composed form; it is encoded as it is.
    std::string out =
        n < 0 ? std::string(text) : std::string(reinterpret_cast<char*>(result), static_cast<size_t>(n));
    std::free(result);
    return out;
}

void BpeTokenizer::encode_text(std::string_view text, std::vector<int32_t>& out) const {
    if (text.empty()) return;
    std::string normal;
    if (nfc_) text = normal = composed(text);
    std::vector<std::string_view> pieces{text}, next;
    for (const auto& pattern : patterns_) {
        next.clear();
        for (std::string_view piece : pieces) pattern->split(piece, next);
        pieces.swap(next);
    }
    for (std::string_view piece : pieces) encode_piece(piece, out);
}

void BpeTokenizer::encode_piece(std::string_view piece, std::vector<int32_t>& out) const {
    if (whole_pieces_)
        if (auto it = id_of_bytes_.find(std::string(piece)); it != id_of_bytes_.end()) {
            out.push_back(it->second);
            return;
        }
    struct Symbol {
        int32_t id, previous, next;  // id -1: joined into its left neighbour
    };
    struct Candidate {
        int32_t rank, at, left, right;
        bool operator>(const Candidate& o) const { return rank != o.rank ? rank > o.rank : at > o.at; }
    };
    std::vector<Symbol> symbols;
    symbols.reserve(piece.size());
    for (char c : piece)
        if (int32_t id = byte_ids_[static_cast<uint8_t>(c)]; id >= 0) {
            auto i = static_cast<int32_t>(symbols.size());
            symbols.push_back({id, i - 1, i + 1});
        }
    if (symbols.size() < piece.size()) dropped_bytes_ += static_cast<int64_t>(piece.size() - symbols.size());
    if (symbols.empty()) return;
    symbols.back().next = -1;
    const auto n = static_cast<int32_t>(symbols.size());
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
    auto offer = [&](int32_t at) {
        int32_t right = at < 0 ? -1 : symbols[static_cast<size_t>(at)].next;
        if (right < 0) return;
        int32_t a = symbols[static_cast<size_t>(at)].id, b = symbols[static_cast<size_t>(right)].id;
        if (auto it = merges_.find(pair_key(a, b)); it != merges_.end())
            queue.push({it->second.rank, at, a, b});
    };
    for (int32_t i = 0; i + 1 < n; ++i) offer(i);
    while (!queue.empty()) {
        Candidate c = queue.top();
        queue.pop();
        Symbol& left = symbols[static_cast<size_t>(c.at)];
        // A candidate is stale when either side has been joined since.
        if (left.id != c.left || left.next < 0 || symbols[static_cast<size_t>(left.next)].id != c.right)
            continue;
        Symbol& right = symbols[static_cast<size_t>(left.next)];
        left.id = merges_.find(pair_key(c.left, c.right))->second.product;
        right.id = -1;
        left.next = right.next;
        if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = c.at;
        offer(left.previous);
        offer(c.at);
    }
    for (int32_t i = 0; i >= 0; i = symbols[static_cast<size_t>(i)].next)
        out.push_back(symbols[static_cast<size_t>(i)].id);
}

std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufFile& file) {
    BpeModel m;
    m.source = file.path();
    if (std::string model = file.string("tokenizer.ggml.model"); model != "gpt2")
        refuse(file.path(), ": tokenizer.ggml.model: \"", text::valid_utf8(model),
               "\" is not supported; byte-level BPE (\"gpt2\") is");
    if (file.boolean_or("tokenizer.ggml.add_space_prefix", false))
        refuse(file.path(), ": tokenizer.ggml.add_space_prefix: true is not supported with byte-level BPE");
    m.pre = file.string("tokenizer.ggml.pre");
    m.tokens = file.strings("tokenizer.ggml.tokens");
    m.merges = file.strings("tokenizer.ggml.merges");
    for (int64_t type : file.integers("tokenizer.ggml.token_type")) switch (type) {
            case 1: m.types.push_back(BpeModel::Type::normal); break;
            case 3: m.types.push_back(BpeModel::Type::control); break;
            case 4: m.types.push_back(BpeModel::Type::user_defined); break;
            case 5: m.types.push_back(BpeModel::Type::unused); break;
            default:
                refuse(file.path(), ": tokenizer.ggml.token_type: ", type,
                       " does not occur in byte-level BPE (1, 3, 4 and 5 do)");
        }
    m.bos_id = file.integer_or("tokenizer.ggml.bos_token_id", -1);
    m.eos_id = file.integer_or("tokenizer.ggml.eos_token_id", -1);
    m.pad_id = file.integer_or("tokenizer.ggml.padding_token_id", -1);
    m.add_bos = file.boolean_or("tokenizer.ggml.add_bos_token", m.pre == "llama-bpe");
    m.stop_ids = {m.eos_id};
    for (const char* key : {"tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"})
        if (file.has(key)) m.stop_ids.push_back(file.integer(key));
    // Older files of ChatML models name only the end of the text; a turn ends with this token.
    for (size_t id = 0; id < m.tokens.size() && id < m.types.size(); ++id)
        if (m.types[id] == BpeModel::Type::control && m.tokens[id] == "<|im_end|>")
            m.stop_ids.push_back(static_cast<int64_t>(id));
    m.chat_template = file.string_or("tokenizer.chat_template", "");
    return std::make_unique<BpeTokenizer>(m);
}

}  // namespace fp8rl
