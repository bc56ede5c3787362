// recipe/value: YAML text as a plain tree with lines, nothing interpreted yet. Refused: what a recipe does
// not need and readers get wrong (anchors, aliases, tags, several documents, tabs, keys that are not plain
// words), and depth or size beyond reason. Duplicate keys are found here.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace fp8rl::recipe {

struct Entry;

struct Value {
    enum class Kind { null, scalar, list, map } kind = Kind::null;
    std::string text;     // scalar
    bool quoted = false;  // scalar: quoted or a block, so never the words none, auto, ...
    std::vector<Value> items;
    std::vector<Entry> entries;  // in the order of the file
    int line = 0;                // from 1
    int key_line = 0;            // of the key before it
    bool is(std::string_view word) const { return kind == Kind::scalar && !quoted && text == word; }
};

struct Entry {
    std::string key;
    Value value;
};

// One complaint: where ("file:3" or "--set a.b=1"), about which key ("" for the whole), what is allowed.
struct Complaint {
    std::string where, key, message;
    std::string line() const;
};

// Null when the text is empty or a fault was found; faults are appended. `file` names the text; without
// `lines` (an override) places carry no line number.
Value read_yaml(std::string_view text, const std::string& file, bool lines, std::vector<Complaint>& faults);

// "file:line" or "file".
std::string place(const std::string& file, bool lines, int line);

}  // namespace fp8rl::recipe
