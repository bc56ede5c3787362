// nn/elementary: the transcendental functions of the RoPE tables and of initialization, in double. Plain IEEE
// operations in a fixed order (no libm, whose versions change with the CPU's features). Error below 1e-15.
#pragma once

namespace fp8rl {

struct SinCos {
    double sin, cos;
};
SinCos sin_cos(double x);      // |x| up to 2^30
double natural_log(double x);  // x > 0, normal

}  // namespace fp8rl
