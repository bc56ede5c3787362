// nn/model_impl: what a Model is made of; for model.cpp and model_state.cpp alone.
#pragma once
#include <deque>

#include "nn/block.h"
#include "nn/model.h"

namespace fp8rl {

struct Model::Impl {
    Impl(Backend& backend, const ModelSpec& spec, const ModelOptions& options);
    static std::deque<Block> make_blocks(Network& net);

    Network net;
    Param& embedding;
    std::deque<Block> blocks;
    Norm final_norm;
    Param& head;  // the embedding when tied
};

}  // namespace fp8rl
