// rl/families: one constructor per task family; each lives in a file of its own. make_task chooses by name.
#pragma once
#include "rl/task.h"

namespace fp8rl::rl {

// `83520>` is answered by `02358`, exactly, with end-of-sequence.
std::unique_ptr<Task> make_sort_task(const TaskOptions& options);

// Sums, differences, products, quotients without remainder. Raw `12+34=` (answered `46`) or, as a chat, `What
// is 12 + 34?`; the last number of the completion counts.
std::unique_ptr<Task> make_arithmetic_task(const TaskOptions& options);

// Short stories with one or two steps of arithmetic; the last number of the completion counts.
std::unique_ptr<Task> make_word_problems_task(const TaskOptions& options);

// JSON lines with question and worked answer, the gold number after `####`. In the completion the first
// number after the last `####` counts, else the number in the last box, else the last number.
std::unique_ptr<Task> make_gsm8k_task(const TaskOptions& options);

// JSON lines; the completion must be the answer, apart from white space around it.
std::unique_ptr<Task> make_exact_match_task(const TaskOptions& options);

// JSON lines; the last \boxed{...} of the completion must equal the answer (rl/boxed).
std::unique_ptr<Task> make_boxed_math_task(const TaskOptions& options);

// JSON lines; an external program gives the rewards (rl/command_task).
std::unique_ptr<Task> make_command_task(const TaskOptions& options);

}  // namespace fp8rl::rl
