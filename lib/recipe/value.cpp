// recipe/value: yaml-cpp's events become the tree. Events, not nodes: they carry every position, show
// duplicates, and an alias never expands.
#include "recipe/value.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "core/error.h"
#include "core/text.h"

namespace fp8rl::recipe {

namespace {

constexpr size_t max_bytes = 1 << 20;
constexpr size_t max_depth = 16;

struct Stop {
    int line;
    std::string message;
};

class Builder : public YAML::EventHandler {
  public:
    Builder(const std::string& file, bool lines, std::vector<Complaint>& faults)
        : file_(file), lines_(lines), faults_(faults) {}

    Value take() {
        // Judged last: text that is no YAML at all often looks like an odd key first.
        if (bad_key_line_) throw Stop{bad_key_line_, "a key must be a word"};
        return std::move(root_);
    }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (documents_++) throw Stop{mark.line + 1, "a second document; a recipe is one"};
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        refuse_extras(mark, "", anchor);
        Value v;
        v.line = mark.line + 1;
        add(std::move(v), "");
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
        throw Stop{mark.line + 1, "an alias (*name); write the value out"};
    }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& text) override {
        refuse_extras(mark, tag, anchor);
        Value v;
        v.kind = Value::Kind::scalar;
        v.text = text;
        v.quoted = tag == "!";
        v.line = mark.line + 1;
        add(std::move(v), text);
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value) override {
        open(mark, tag, anchor, Value::Kind::list);
    }
    void OnSequenceEnd() override { close(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value) override {
        open(mark, tag, anchor, Value::Kind::map);
    }
    void OnMapEnd() override { close(); }

  private:
    struct Open {
        Value value;
        bool has_key = false;
        std::string key;
        int key_line = 0;
    };

    void refuse_extras(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
        if (anchor) throw Stop{mark.line + 1, "an anchor (&name); write the value out where it is needed"};
        if (!tag.empty() && tag != "?" && tag != "!")
            throw Stop{mark.line + 1, "a tag (!type); values are read by the type of their key"};
    }

    void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Value::Kind kind) {
        refuse_extras(mark, tag, anchor);
        if (open_.size() >= max_depth) throw Stop{mark.line + 1, "too many levels"};
        Open o;
        o.value.kind = kind;
        o.value.line = mark.line + 1;
        open_.push_back(std::move(o));
    }

    void close() {
        Value v = std::move(open_.back().value);
        open_.pop_back();
        add(std::move(v), "");
    }

    void add(Value v, const std::string& as_key) {
        if (open_.empty()) {
            root_ = std::move(v);
            return;
        }
        Open& o = open_.back();
        if (o.value.kind == Value::Kind::list) {
            o.value.items.push_back(std::move(v));
        } else if (!o.has_key) {
            if (v.kind != Value::Kind::scalar && !bad_key_line_) bad_key_line_ = v.line;
            o.has_key = true;
            o.key = as_key;
            o.key_line = v.line;
        } else {
            o.has_key = false;
            auto& entries = o.value.entries;
            auto twin =
                std::find_if(entries.begin(), entries.end(), [&](const auto& e) { return e.key == o.key; });
            if (twin != entries.end()) {
                faults_.push_back(
                    {place(file_, lines_, o.key_line), path() + o.key,
                     lines_ ? cat("given twice; first on line ", twin->value.key_line) : "given twice"});
                return;
            }
            v.key_line = o.key_line;
            entries.push_back({o.key, std::move(v)});
        }
    }

    std::string path() const {
        std::string p;
        for (size_t i = 0; i + 1 < open_.size(); ++i)
            if (open_[i].value.kind == Value::Kind::map) p += open_[i].key + ".";
        return p;
    }

    std::string file_;
    bool lines_;
    std::vector<Complaint>& faults_;
    std::vector<Open> open_;
    Value root_;
    int documents_ = 0;
    int bad_key_line_ = 0;
};

// The first line that begins with a tab; 0 when there is none.
int tab_line(std::string_view text) {
    int line = 1;
    for (size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\t' && (i == 0 || text[i - 1] == '\n')) return line;
        line += text[i] == '\n';
    }
    return 0;
}

}  // namespace

std::string place(const std::string& file, bool lines, int line) {
    return lines ? cat(file, ":", line) : file;
}

std::string Complaint::line() const {
    return key.empty() ? where + ": " + message : where + ": " + key + ": " + message;
}

Value read_yaml(std::string_view text, const std::string& file, bool lines, std::vector<Complaint>& faults) {
    auto fault = [&](int line, const std::string& message) {
        faults.push_back({place(file, lines, line), "", message});
        return Value{};
    };
    if (text.size() > max_bytes) return fault(1, cat("larger than ", text::human_bytes(max_bytes)));
    if (text.find('\0') != std::string_view::npos) return fault(1, "a zero byte; a recipe is text");
    if (int line = tab_line(text)) return fault(line, "a tab in the indentation; use spaces");
    std::istringstream in{std::string(text)};
    Builder builder(file, lines, faults);
    try {
        YAML::Parser parser(in);
        while (parser.HandleNextDocument(builder)) {
        }
        return builder.take();
    } catch (const Stop& stop) {
        return fault(stop.line, stop.message);
    } catch (const YAML::Exception& e) {
        return fault(std::max(0, e.mark.line) + 1, "not YAML: " + e.msg);
    }
}

}  // namespace fp8rl::recipe
