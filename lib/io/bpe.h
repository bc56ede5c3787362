// io/bpe: byte-level byte-pair encoding as GPT-2 introduced it. Text is cut by the pre-tokenizer's patterns,
// each piece becomes bytes, and the pair of lowest rank is joined until none is left. Refused at
// construction: an unknown pre-tokenizer, duplicate tokens, a merge that is not two known
// parts with a known product.
// A byte that the vocabulary lacks (SmolLM2 lacks some control characters) is left out and counted, as the
// `tokenizers` library leaves it out.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/tokenizer.h"

namespace fp8rl {

// What a file says about a tokenizer, before any of it is believed.
struct BpeModel {
    enum class Type : uint8_t {
        normal,        // written in GPT-2's alphabet of byte characters
        control,       // special: split out only when allowed, never shown
        user_defined,  // always split out, shown
        unused,        // keeps its id; never produced
    };
    std::string source;                    // stands in messages
    std::string pre;                       // gpt-2, smollm, llama-bpe, qwen2
    std::vector<std::string_view> tokens;  // by id
    std::vector<Type> types;               // by id
    std::vector<std::string_view> merges;  // "left right", by rank
    int64_t bos_id = -1, eos_id = -1, pad_id = -1;
    bool add_bos = false;
    std::vector<int64_t> stop_ids;
    std::string chat_template;
};

class BpeTokenizer final : public Tokenizer {
  public:
    explicit BpeTokenizer(const BpeModel& model);
    ~BpeTokenizer() override;

    std::vector<int32_t> encode(std::string_view text, bool allow_special) const override;
    std::string_view bytes_of(int32_t id) const override;
    bool is_special(int32_t id) const override;
    std::optional<int32_t> special_id(std::string_view text) const override;

  private:
    class Pattern;
    struct Merge {
        int32_t rank, product;
    };
    struct Added {
        std::string text;
        int32_t id;
        bool control;
    };

    void add_merges(const BpeModel& model, const std::unordered_map<std::string_view, int32_t>& ids);
    void encode_text(std::string_view text, std::vector<int32_t>& out) const;
    void encode_piece(std::string_view piece, std::vector<int32_t>& out) const;

    std::vector<std::unique_ptr<Pattern>> patterns_;  // each cuts the pieces of the one before
    bool nfc_ = false;                                // text is composed first (qwen2)
    bool whole_pieces_ = false;   // a piece that is a token is not built by merges (llama-bpe)
    std::string bytes_;           // of all tokens, one after another
    std::vector<size_t> starts_;  // into bytes_, vocab_size + 1
    std::vector<BpeModel::Type> types_;
    std::vector<Added> added_;                              // control and user-defined tokens, longest first
    int32_t byte_ids_[256];                                 // -1: the vocabulary lacks it
    std::unordered_map<uint64_t, Merge> merges_;            // (left id, right id)
    std::unordered_map<std::string, int32_t> id_of_bytes_;  // filled for whole_pieces_ only
};

}  // namespace fp8rl
