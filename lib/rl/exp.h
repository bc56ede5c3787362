// rl/exp: the few transcendental functions of losses and metrics, in double. Plain IEEE operations in a fixed
// order, so every CPU and every libm gives the same bits (the C library's versions change with the CPU's
// features). Relative error below 1e-15.
#pragma once

namespace fp8rl::rl {

// e^x; 1 at 0. Arguments are held to [-700, 700], so a finite argument never gives infinity. NaN stays NaN.
double exp(double x);

// e^x - 1 - x, without cancellation near 0: the k3 estimator of KL at log-ratio x. Never negative.
double exp_residue(double x);

// log((1 + e^x) / 2) - x / 2 for any x: 0 at 0, even, never negative.
double log_cosh_half(double x);

}  // namespace fp8rl::rl
