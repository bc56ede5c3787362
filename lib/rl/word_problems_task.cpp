// Short stories over a table of templates: each names its numbers, how they are drawn and what is done with
// them. The worked solution shows each step and ends in the answer.
#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/parallel.h"
#include "rl/families.h"
#include "rl/generated.h"
#include "rl/number.h"

namespace fp8rl::rl {

namespace {

// What a story does with its numbers a, b and, in two steps, c.
enum class Plot {
    add,
    subtract,
    multiply,
    share,
    add_subtract,
    add_add,
    multiply_add,
    multiply_subtract,
    double_add
};

struct Story {
    Plot plot;
    const char* text;  // {name}, {other}, {thing}, {a}, {b}, {c}
};

constexpr Story stories[] = {
    {Plot::add, "{name} has {a} {thing} and finds {b} more. How many {thing} does {name} have now?"},
    {Plot::add,
     "There are {a} {thing} on one table and {b} on another. How many {thing} are there in total?"},
    {Plot::subtract,
     "{name} had {a} {thing} and gave {b} of them to {other}. How many {thing} does {name} have left?"},
    {Plot::subtract, "{name} has {a} {thing}. {other} has {b} fewer. How many {thing} does {other} have?"},
    {Plot::multiply, "Each box holds {a} {thing}. How many {thing} are in {b} boxes?"},
    {Plot::multiply, "{name} buys {b} bags with {a} {thing} in each. How many {thing} does {name} buy?"},
    {Plot::share,
     "{name} shares {a} {thing} equally among {b} children. How many {thing} does each child get?"},
    {Plot::add_subtract,
     "{name} has {a} {thing}, buys {b} more and then gives {c} to {other}. How many {thing} does {name} have "
     "left?"},
    {Plot::add_add,
     "{name} has {a} {thing}, {other} has {b}, and together they find {c} more. How many {thing} are there "
     "in all?"},
    {Plot::multiply_add,
     "{name} has {b} boxes with {a} {thing} in each, and {c} loose ones. How many {thing} does {name} have?"},
    {Plot::multiply_subtract,
     "{name} packs {b} boxes with {a} {thing} in each and then sells {c} {thing}. How many {thing} are "
     "left?"},
    {Plot::double_add,
     "{name} collects {a} {thing} on Monday and twice as many on Tuesday. How many {thing} is that in "
     "total?"},
};
constexpr std::array names = {"Ana",  "Ben",   "Chen", "Dalia", "Emil", "Fatima", "Goran", "Hana",
                              "Ivan", "Jonas", "Kira", "Liam",  "Mona", "Nils",   "Omar",  "Pia"};
constexpr std::array things = {"apples",  "books",  "candles", "coins",    "eggs",    "marbles",
                               "pencils", "shells", "stamps",  "stickers", "tickets", "walnuts"};

int steps_of(Plot plot) { return plot <= Plot::share ? 1 : 2; }

struct Step {
    int64_t left;
    char sign;
    int64_t right;
    int64_t value() const {
        switch (sign) {
            case '+': return left + right;
            case '-': return left - right;
            case '*': return left * right;
            default: return left / right;
        }
    }
    std::string text() const { return cat(left, " ", sign, " ", right, " = ", value()); }
};

struct Numbers {
    int64_t a = 0, b = 0, c = 0;
};

// Small factors: what can be counted in boxes and children.
constexpr int64_t least_factor = 2, largest_factor = 9;

// Draws the numbers of a plot such that nothing is negative and nothing remains.
Numbers draw_numbers(Random& random, Plot plot, int64_t largest) {
    Numbers n;
    n.a = random.integer(2, largest);
    switch (plot) {
        case Plot::add:
        case Plot::add_add: n.b = random.integer(2, largest); break;
        case Plot::subtract: n.b = random.integer(1, n.a - 1); break;
        case Plot::multiply:
        case Plot::multiply_add:
        case Plot::multiply_subtract: n.b = random.integer(least_factor, largest_factor); break;
        case Plot::share:
            n.b = random.integer(least_factor, largest_factor);
            n.a = n.b * random.integer(1, std::max<int64_t>(1, largest / n.b));
            break;
        case Plot::add_subtract: n.b = random.integer(2, largest); break;
        case Plot::double_add: n.b = 2; break;
    }
    if (plot == Plot::add_subtract) n.c = random.integer(1, n.a + n.b - 1);
    if (plot == Plot::add_add || plot == Plot::multiply_add) n.c = random.integer(1, largest);
    if (plot == Plot::multiply_subtract) n.c = random.integer(1, n.a * n.b - 1);
    return n;
}

std::vector<Step> solve(Plot plot, const Numbers& n) {
    auto two = [](Step first, char sign, int64_t right) {
        return std::vector<Step>{first, {first.value(), sign, right}};
    };
    switch (plot) {
        case Plot::add: return {{n.a, '+', n.b}};
        case Plot::subtract: return {{n.a, '-', n.b}};
        case Plot::multiply: return {{n.a, '*', n.b}};
        case Plot::share: return {{n.a, '/', n.b}};
        case Plot::add_subtract: return two({n.a, '+', n.b}, '-', n.c);
        case Plot::add_add: return two({n.a, '+', n.b}, '+', n.c);
        case Plot::multiply_add: return two({n.a, '*', n.b}, '+', n.c);
        case Plot::multiply_subtract: return two({n.a, '*', n.b}, '-', n.c);
        case Plot::double_add: return two({n.a, '*', n.b}, '+', n.a);
    }
    defect("word problems: unknown plot");
}

std::string fill(std::string_view text, FunctionRef<std::string(std::string_view)> value_of) {
    std::string out;
    for (size_t open; (open = text.find('{')) != std::string_view::npos;) {
        size_t close = text.find('}', open);
        out += text.substr(0, open);
        out += value_of(text.substr(open + 1, close - open - 1));
        text.remove_prefix(close + 1);
    }
    return out += text;
}

template <class Choices>
auto& pick(Random& random, const Choices& choices) {
    return choices[random.integer(0, static_cast<int64_t>(std::size(choices)) - 1)];
}

Exercise draw_story(Random& random, int steps, int64_t largest) {
    const Story* story;
    do story = &pick(random, stories);
    while (steps != 0 && steps_of(story->plot) != steps);
    const Numbers n = draw_numbers(random, story->plot, largest);
    const std::string name = pick(random, names), thing = pick(random, things);
    std::string other;
    do other = pick(random, names);
    while (other == name);

    Exercise e;
    e.question = fill(story->text, [&](std::string_view key) {
        if (key == "name") return name;
        if (key == "other") return other;
        if (key == "thing") return thing;
        return std::to_string(key == "a" ? n.a : key == "b" ? n.b : n.c);
    });
    for (const Step& step : solve(story->plot, n)) {
        e.solution += step.text() + ". ";
        e.answer = std::to_string(step.value());
    }
    e.solution += "The answer is " + e.answer + ".";
    return e;
}

class WordProblemsTask : public GeneratedTask {
  public:
    WordProblemsTask(const TaskOptions& options, int64_t largest)
        : GeneratedTask(options, [steps = options.steps, largest](Random& random) {
              return draw_story(random, steps, largest);
          }) {}
    std::string_view name() const override { return "word_problems"; }
    std::string final_answer(std::string_view completion) const override { return last_number(completion); }

  protected:
    bool correct(const Problem& problem, std::string_view completion) const override {
        return last_number(completion) == problem.answer;
    }
};

}  // namespace

std::unique_ptr<Task> make_word_problems_task(const TaskOptions& options) {
    if (options.steps < 0 || options.steps > 2)
        refuse("task.steps: ", options.steps, "; 1, 2, or 0 for both");
    if (options.digits < 1 || options.digits > 6)
        refuse("task.digits: ", options.digits, "; between 1 and 6");
    int64_t largest = 1;
    for (int i = 0; i < options.digits; ++i) largest *= 10;
    return std::make_unique<WordProblemsTask>(options, largest - 1);
}

}  // namespace fp8rl::rl
