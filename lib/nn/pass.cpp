// nn/pass: packing of whole sequences. Each gets its own pages of a throw-away cache, counted from 0.
#include "nn/pass.h"

namespace fp8rl {

void PackedBatch::clear() {
    ids.clear();
    positions.clear();
    spans_.clear();
    page_table_.clear();
    pages_ = 0;
}

void PackedBatch::add(std::span<const int32_t> tokens) {
    check(!tokens.empty(), "packed batch: a sequence without tokens");
    const auto rows = static_cast<int32_t>(tokens.size());
    spans_.push_back({static_cast<int32_t>(ids.size()), rows, static_cast<int32_t>(pages_)});
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    for (int32_t i = 0; i < rows; ++i) positions.push_back(i);
    const int64_t pages = (rows + kv_page_tokens - 1) / kv_page_tokens;
    for (int64_t i = 0; i < pages; ++i) page_table_.push_back(static_cast<int32_t>(pages_ + i));
    pages_ += pages;
}

std::span<const Sequence> PackedBatch::sequences() {
    sequences_.clear();
    for (const auto& s : spans_) sequences_.push_back({s.row, s.rows, 0, page_table_.data() + s.first_page});
    return sequences_;
}

}  // namespace fp8rl
