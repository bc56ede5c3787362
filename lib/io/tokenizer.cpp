#include "io/tokenizer.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/text.h"

namespace fp8rl {

std::string Tokenizer::decode(std::span<const int32_t> ids, bool keep_special) const {
    std::string out;
    for (int32_t id : ids)
        if (keep_special || !is_special(id)) out += bytes_of(id);
    return out;
}

std::string StreamDecoder::push(int32_t id) {
    if (tokenizer_.is_special(id)) return "";
    held_ += tokenizer_.bytes_of(id);
    // valid_utf8 leaves out an unfinished last character: those are the last bytes, at most three, from its
    // lead byte.
    size_t keep = 0;
    for (size_t k = 1; k <= std::min<size_t>(3, held_.size()); ++k) {
        auto c = static_cast<uint8_t>(held_[held_.size() - k]);
        if (c >= 0xC0) {
            if (text::valid_utf8(std::string_view(held_).substr(held_.size() - k)).empty()) keep = k;
            break;
        }
        if (c < 0x80) break;
    }
    std::string shown = text::valid_utf8(std::string_view(held_).substr(0, held_.size() - keep));
    held_.erase(0, held_.size() - keep);
    return shown;
}

std::string StreamDecoder::finish() {
    std::string rest = held_.empty() ? "" : "\xEF\xBF\xBD";
    held_.clear();
    return rest;
}

static void add_ids(const Json* config, std::vector<int32_t>& out) {
    const Json& ids = config->at("eos_token_id");
    auto add = [&](const Json& id) {
        int64_t n = id.as_integer();
        if (n < 0 || n > INT32_MAX) refuse(id.where(), ": ", n, " is not a token id");
        out.push_back(static_cast<int32_t>(n));
    };
    if (ids.is_array())
        for (const Json& id : ids.items()) add(id);
    else
        add(ids);
}

std::vector<int32_t> merge_stop_ids(const Json* generation_config, const Json* config,
                                    const std::vector<int32_t>& of_tokenizer) {
    auto has = [](const Json* j) { return j && !j->is_null() && j->has("eos_token_id"); };
    std::vector<int32_t> out = of_tokenizer;
    if (has(generation_config))
        add_ids(generation_config, out);
    else if (has(config))
        add_ids(config, out);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
}

namespace {

class ByteTokenizer final : public Tokenizer {
  public:
    ByteTokenizer() {
        kind_ = "bytes";
        for (int i = 0; i < 256; ++i) bytes_[static_cast<size_t>(i)] = static_cast<char>(i);
        vocab_size_ = 256 + static_cast<int32_t>(specials_.size());
        bos_id_ = 256;
        eos_id_ = 257;
        pad_id_ = 258;
        stop_ids_ = {eos_id_};
    }

    std::vector<int32_t> encode(std::string_view text, bool allow_special) const override {
        std::vector<int32_t> out;
        out.reserve(text.size());
        for (size_t i = 0; i < text.size();) {
            int32_t id = static_cast<uint8_t>(text[i]);
            size_t bytes = 1;
            if (allow_special && text[i] == '<')
                for (size_t k = 0; k < specials_.size(); ++k)
                    if (text.substr(i).starts_with(specials_[k]))
                        id = 256 + static_cast<int32_t>(k), bytes = specials_[k].size();
            out.push_back(id);
            i += bytes;
        }
        return out;
    }
    std::string_view bytes_of(int32_t id) const override {
        check(id >= 0 && id < vocab_size_, "tokenizer: id ", id, " of ", vocab_size_);
        if (id >= 256) return specials_[static_cast<size_t>(id - 256)];
        return {&bytes_[static_cast<size_t>(id)], 1};
    }
    bool is_special(int32_t id) const override { return id >= 256; }
    std::optional<int32_t> special_id(std::string_view text) const override {
        for (size_t k = 0; k < specials_.size(); ++k)
            if (specials_[k] == text) return 256 + static_cast<int32_t>(k);
        return std::nullopt;
    }

  private:
    static constexpr std::array<std::string_view, 8> specials_ = {
        "<|bos|>", "<|eos|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>", "<|sep|>", "<|unused|>"};
    std::array<char, 256> bytes_{};
};

}  // namespace

std::unique_ptr<Tokenizer> byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace fp8rl
