// io/tokenizer: text to ids and back. Two of them: bytes (for models built from scratch) and byte-level BPE
// read from GGUF metadata (io/bpe.h). Text is bytes; special tokens are split out first, and only when the
// caller allows it, so that a user's message cannot smuggle one in. Decoding gives back the bytes exactly;
// StreamDecoder holds unfinished characters back.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"

namespace fp8rl {

class GgufFile;

class Tokenizer {
  public:
    virtual ~Tokenizer() = default;

    // allow_special: the text of a special token becomes its id; else it is ordinary text. Never adds bos by
    // itself.
    virtual std::vector<int32_t> encode(std::string_view text, bool allow_special) const = 0;
    // The bytes of one token (a special token: its text). An id outside the vocabulary is a defect.
    virtual std::string_view bytes_of(int32_t id) const = 0;
    virtual bool is_special(int32_t id) const = 0;
    // The id of the token with this text among the special ones.
    virtual std::optional<int32_t> special_id(std::string_view text) const = 0;

    std::string decode(std::span<const int32_t> ids, bool keep_special = true) const;

    int32_t vocab_size() const { return vocab_size_; }
    int32_t bos_id() const { return bos_id_; }  // -1: none
    int32_t eos_id() const { return eos_id_; }  // -1: none
    int32_t pad_id() const { return pad_id_; }  // -1: none
    bool add_bos() const { return add_bos_; }   // whether a plain prompt starts with bos
    // Ids that end a completion, sorted.
    const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
    const std::string& chat_template() const { return chat_template_; }  // "" when there is none
    // Bytes that encode() has left out so far because the vocabulary has no token for them; for the log.
    int64_t dropped_bytes() const { return dropped_bytes_.load(std::memory_order_relaxed); }
    const std::string& kind() const { return kind_; }  // "bytes", "bpe smollm", ...

  protected:
    std::string kind_;
    int32_t vocab_size_ = 0, bos_id_ = -1, eos_id_ = -1, pad_id_ = -1;
    bool add_bos_ = false;
    std::vector<int32_t> stop_ids_;
    std::string chat_template_;
    mutable std::atomic<int64_t> dropped_bytes_{0};
};

// Ids 0..255 are the bytes, 256 <|bos|>, 257 <|eos|>, 258 <|pad|>, 259 <|system|>, 260 <|user|>, 261
// <|assistant|>, 262 <|sep|>, 263 <|unused|>: a vocabulary of 264.
std::unique_ptr<Tokenizer> byte_tokenizer();

// From the keys tokenizer.ggml.* and tokenizer.chat_template. Refuses a model other than byte-level BPE
// ("gpt2"), an unknown pre-tokenizer, a merge that cannot be parsed or whose parts or product are not in the
// vocabulary, ids outside the vocabulary. The file need not outlive the tokenizer.
std::unique_ptr<Tokenizer> tokenizer_from_gguf(const GgufFile& file);

// Field case f06: ids of generation_config's eos_token_id (integer or list), else of config's, plus the
// tokenizer's own. Either may be nullptr. Sorted.
std::vector<int32_t> merge_stop_ids(const Json* generation_config, const Json* config,
                                    const std::vector<int32_t>& of_tokenizer);

// Text of a growing sequence in pieces of whole characters; bytes that can never become one turn into U+FFFD.
class StreamDecoder {
  public:
    explicit StreamDecoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
    std::string push(
        int32_t id);       // what can be shown now; often "" inside a character. Special tokens show nothing
    std::string finish();  // what is left, unfinished characters as U+FFFD

  private:
    const Tokenizer& tokenizer_;
    std::string held_;
};

}  // namespace fp8rl
