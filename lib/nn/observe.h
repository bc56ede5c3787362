// nn/observe: what quantization reads and reports in backend memory. One slot per quantized input of a linear
// layer for step-frozen scales, one per (module, role) for counters. Refused: state of another model.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "core/parallel.h"
#include "nn/model.h"
#include "quant/quantize.h"

namespace fp8rl {

// Whole-tensor scales of forward activations: `delayed` from a history, `fixed` from the recipe. The
// multiplier of a slot changes only in begin_step().
class ActivationScales {
  public:
    explicit ActivationScales(Backend& backend) : backend_(backend) {}
    // A slot for `spec` (scaling delayed or fixed), or -1 when it needs none.
    int add(const std::string& name, const QuantSpec& spec, const PerTensorRules& rules);
    void reserve(Arena& arena);

    const float* multiplier(int slot) const;  // a defect before the first begin_step that saw something
    float* amax(int slot) const;              // of the running step

    void begin_step();
    void mark_calibrated();
    std::vector<Model::State> state() const;
    // Takes the entries named "activation_scale.*" and refuses a missing or odd one.
    void restore(const std::vector<Model::State>& state);
    size_t count() const { return slots_.size(); }
    Tensor amax_values() const { return amax_; }

  private:
    struct Slot {
        std::string name;
        bool delayed;
        bool ready;
        float fixed_multiplier;
        DelayedScale scale;
    };
    void upload_multipliers();

    Backend& backend_;
    std::vector<Slot> slots_;
    Tensor multiplier_, amax_;  // f32 [slots]
};

// Values, saturated and flushed, per module and role.
class Counters {
  public:
    explicit Counters(Backend& backend) : backend_(backend) {}
    int add(const std::string& module, int layer, Role role);
    void reserve(Arena& arena);
    QuantCounts* at(int slot) const;
    std::vector<RoleCounts> take();  // and start again from zero

  private:
    Backend& backend_;
    std::vector<RoleCounts> slots_;
    Tensor counts_;  // i64 [slots, 3]
};

}  // namespace fp8rl
