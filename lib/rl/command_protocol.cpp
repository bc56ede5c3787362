#include "rl/command_protocol.h"

#include <cmath>

#include "core/error.h"
#include "core/text.h"
#include "io/json.h"

namespace fp8rl::rl {

std::string request_line(int64_t id, const Completion& completion) {
    const Problem& p = *completion.problem;
    Json request = Json::object();
    request.set("id", id);
    request.set("problem", p.id);
    request.set("question", p.messages.empty() ? p.prompt : p.messages.back().content);
    if (!p.messages.empty()) {
        Json messages = Json::array();
        for (const Message& m : p.messages)
            messages.push(Json::object().set("role", m.role).set("content", m.content));
        request.set("messages", std::move(messages));
    }
    request.set("answer", p.answer);
    request.set("completion", completion.text);
    request.set("finished", completion.finished);
    return request.dump() + "\n";
}

static std::string excerpt(std::string_view line) {
    constexpr size_t longest = 80;
    std::string s = text::valid_utf8(line.substr(0, longest));
    return line.size() > longest ? s + "..." : s;
}

double read_reward(std::string_view line, int64_t id, const std::string& where) {
    // Python writes NaN and Infinity, which JSON does not have: the parser refuses them with their place.
    Json reply;
    try {
        reply = Json::parse(line, where, 0);
    } catch (const Error& e) {
        refuse(e.what(), "; the line is: ", excerpt(line));
    }
    if (!reply.is_object())
        refuse(where, ": {\"id\": ..., \"reward\": ...} is needed, found: ", excerpt(line));
    if (reply.at("id").as_integer() != id)
        refuse(where, ": id ", reply.at("id").as_integer(), " where ", id,
               " was asked; replies come in the order of the requests");
    double reward = reply.at("reward").as_number();
    if (!std::isfinite(reward)) refuse(where, ": the reward is ", reward, "; finite numbers only");
    return reward;
}

}  // namespace fp8rl::rl
