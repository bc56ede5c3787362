// io/jinja_calls: what filters, tests, methods and functions compute. Arguments come in the order of the
// signature, null where none was given.
#pragma once
#include <string>
#include <vector>

#include "io/jinja_syntax.h"

namespace fp8rl::jinja {

using Arguments = std::vector<const Value*>;

// `budget` counts work: characters and values touched. Exhausting it is refused. Errors carry no line; the
// renderer adds it.
Value call_filter(const std::string& name, const Value& input, const Arguments& arguments, int64_t& budget);
bool call_test(const std::string& name, const Value& input, const Arguments& arguments, int64_t& budget);
Value call_method(const std::string& name, const Value& self, const Arguments& arguments, int64_t& budget);
Value call_function(const std::string& name, const Arguments& arguments, int64_t& budget);

void spend(int64_t& budget, uint64_t work);
// What a for loop walks over: items of a list, keys of a dict, characters of a string, nothing for undefined.
std::vector<Value> iterate(const Value& v, int64_t& budget);
bool contains(const Value& container, const Value& v, int64_t& budget);
int compare_order(const Value& a, const Value& b);  // -1, 0, 1; refuses what has no order

}  // namespace fp8rl::jinja
