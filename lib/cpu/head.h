// cpu/head: logits, token log-probabilities and sampling (contracts in backend/backend.h).
#pragma once
#include "backend/backend.h"

namespace fp8rl::cpu {

void logits(Tensor out, Tensor h, const Weight& head);
void token_logprob(Tensor logp, Tensor entropy, Tensor lse, Tensor h, const Weight& head,
                   std::span<const int32_t> targets, std::span<const float> cutoffs, float temperature);
void token_logprob_backward(Tensor dh, Tensor dhead, Tensor dlogp, Tensor dentropy, Tensor lse,
                            Tensor entropy, Tensor h, const Weight& head, std::span<const int32_t> targets,
                            std::span<const float> cutoffs, float temperature);
void sample(std::span<Sampled> out, Tensor logits, std::span<const SampleParams> params);

}  // namespace fp8rl::cpu
