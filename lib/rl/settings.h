// rl/settings: the recipe's words as the parameter structs of this room. Pure mapping, one function per
// struct, so that the rest of the room never reads a recipe key.
#pragma once
#include "recipe/recipe.h"
#include "rl/advantage.h"
#include "rl/optimizer.h"
#include "rl/task.h"
#include "rl/update.h"
#include "rollout/sampler.h"

namespace fp8rl::rl {

AdvantageConfig advantage_config(const Recipe& r);
LossConfig loss_config(const Recipe& r);
CorrectionRule correction_rule(const Recipe& r);
UpdateSettings update_settings(const Recipe& r, bool supervised, bool exact);
OptimizerSettings optimizer_settings(const Recipe& r);
OptimizerSettings warmup_settings(const Recipe& r);
// chat: whether problems come as messages (the recipe's choice, or whether the model brings a template).
TaskOptions task_options(const Recipe& r, bool chat);
SamplingConfig rollout_sampling(const Recipe& r);
SamplingConfig validation_sampling(const Recipe& r);

}  // namespace fp8rl::rl
