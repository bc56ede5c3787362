// nn/param: every parameter once, by its published name. Load, init, clipping, AdamW, checkpoint and
// re-quantization are short visits over a ParamSet; a new parameter is one line in its module's constructor.
#pragma once
#include <deque>
#include <string>

#include "backend/backend.h"

namespace fp8rl {

struct Param {
    enum class Kind { matrix, vector, embedding };
    std::string name;  // "model.layers.0.mlp.down_proj.weight"
    Kind kind = Kind::matrix;
    int64_t rows = 0, cols = 0;  // vector: rows = 1
    int layer = -1;              // -1: embedding, final norm, head
    bool trained = true;

    Tensor master;            // f32 [rows, cols]
    Tensor grad;              // f32, empty when the model does not train
    Tensor moment1, moment2;  // f32 or bf16
    Weight weight;   // prepared for training, and for rollout unless that differs (matrix, embedding)
    Weight rollout;  // own handle when the rollout precision differs, else unused
    bool differs_in_rollout = false;

    int64_t size() const { return rows * cols; }
    // Norm gains and biases are not decayed unless the recipe says so.
    bool decayed() const { return kind != Kind::vector; }
    const Weight& used(bool in_rollout) const { return in_rollout && differs_in_rollout ? rollout : weight; }
};

class ParamSet {
  public:
    Param& add(Param p);  // names are unique
    template <class F>
    void visit(F&& f) {
        for (auto& p : params_) f(p);
    }
    template <class F>
    void visit(F&& f) const {
        for (const auto& p : params_) f(p);
    }
    Param* find(const std::string& name);
    size_t count() const { return params_.size(); }
    int64_t elements() const;

  private:
    std::deque<Param> params_;  // stable addresses: modules keep pointers
};

}  // namespace fp8rl
