// nn/param: the set of parameters. A name given twice is a defect.
#include "nn/param.h"

namespace fp8rl {

Param& ParamSet::add(Param p) {
    check(!find(p.name), "parameter ", p.name, " added twice");
    params_.push_back(std::move(p));
    return params_.back();
}

Param* ParamSet::find(const std::string& name) {
    for (auto& p : params_)
        if (p.name == name) return &p;
    return nullptr;
}

int64_t ParamSet::elements() const {
    int64_t n = 0;
    for (const auto& p : params_) n += p.size();
    return n;
}

}  // namespace fp8rl
