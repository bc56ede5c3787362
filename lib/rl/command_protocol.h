// rl/command_protocol: the lines between a reward program and this one. For each completion one line goes
// out,
//   {"id": 17, "problem": "train/3", "question": "...", "answer": "...", "completion": "...", "finished":
//   true}
// and one comes back, in the same order: {"id": 17, "reward": 0.5}. Further keys of a reply are ignored.
// `question` is the last message of a chat; the whole chat follows under "messages".
#pragma once
#include <string>

#include "rl/task.h"

namespace fp8rl::rl {

std::string request_line(int64_t id, const Completion& completion);  // ends in a line feed

// Refuses a reply that is no JSON object, has another id, or no finite reward; `where` names it in the
// message.
double read_reward(std::string_view line, int64_t id, const std::string& where);

}  // namespace fp8rl::rl
