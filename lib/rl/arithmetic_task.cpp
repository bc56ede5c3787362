// Expressions of positive integers. Two operands give no negative difference and no remainder; longer ones
// follow the usual precedence and may be negative.
#include <algorithm>

#include "core/error.h"
#include "rl/families.h"
#include "rl/generated.h"
#include "rl/number.h"

namespace fp8rl::rl {

namespace {

char sign_of(Operation op) {
    switch (op) {
        case Operation::add: return '+';
        case Operation::subtract: return '-';
        case Operation::multiply: return '*';
        case Operation::divide: return '/';
    }
    return '?';
}

struct Expression {
    std::vector<int64_t> operands;
    std::vector<Operation> operations;  // one less

    // Products before sums, left to right. Division stands alone and leaves no remainder.
    int64_t value() const {
        int64_t sum = 0, product = operands[0];
        Operation pending = Operation::add;
        auto close = [&] { sum += pending == Operation::add ? product : -product; };
        for (size_t i = 0; i < operations.size(); ++i) {
            int64_t next = operands[i + 1];
            if (operations[i] == Operation::multiply) {
                product *= next;
            } else if (operations[i] == Operation::divide) {
                product /= next;
            } else {
                close();
                pending = operations[i];
                product = next;
            }
        }
        close();
        return sum;
    }

    std::string text(bool spaced) const {
        std::string s = std::to_string(operands[0]);
        for (size_t i = 0; i < operations.size(); ++i) {
            std::string sign(1, sign_of(operations[i]));
            s += (spaced ? " " + sign + " " : sign) + std::to_string(operands[i + 1]);
        }
        return s;
    }
};

Expression draw_expression(Random& random, const TaskOptions& options) {
    int64_t largest = 1;
    for (int i = 0; i < options.digits; ++i) largest *= 10;
    Expression x;
    for (int i = 0; i < options.operands; ++i) x.operands.push_back(random.integer(1, largest - 1));
    for (int i = 1; i < options.operands; ++i)
        x.operations.push_back(
            options.operations[random.integer(0, static_cast<int64_t>(options.operations.size()) - 1)]);
    if (options.operands == 2) {
        int64_t &a = x.operands[0], &b = x.operands[1];
        if (x.operations[0] == Operation::subtract && a < b) std::swap(a, b);
        if (x.operations[0] == Operation::divide) a *= b;
    }
    return x;
}

class ArithmeticTask : public GeneratedTask {
  public:
    explicit ArithmeticTask(const TaskOptions& options)
        : GeneratedTask(options, [options](Random& random) {
              Expression x = draw_expression(random, options);
              std::string value = std::to_string(x.value());
              if (options.chat)
                  return Exercise{"What is " + x.text(true) + "?", value, x.text(true) + " = " + value};
              return Exercise{x.text(false) + "=", value, value};
          }) {}
    std::string_view name() const override { return "arithmetic"; }
    std::string final_answer(std::string_view completion) const override { return last_number(completion); }

  protected:
    bool correct(const Problem& problem, std::string_view completion) const override {
        return last_number(completion) == problem.answer;
    }
};

}  // namespace

std::unique_ptr<Task> make_arithmetic_task(const TaskOptions& options) {
    if (options.operands < 2) refuse("task.operands: ", options.operands, "; at least 2");
    if (options.digits < 1 || options.digits * options.operands > 18)
        refuse("task.digits: ", options.digits, " with ", options.operands,
               " operands; at least 1, and digits times operands at most 18");
    if (options.digits > 9) refuse("task.digits: ", options.digits, "; at most 9");
    if (options.operations.empty()) refuse("task.operations: empty; add, subtract, multiply or divide");
    bool divides = std::count(options.operations.begin(), options.operations.end(), Operation::divide) > 0;
    if (divides && options.operands > 2)
        refuse("task.operations: divide works with 2 operands, not ", options.operands);
    return std::make_unique<ArithmeticTask>(options);
}

}  // namespace fp8rl::rl
