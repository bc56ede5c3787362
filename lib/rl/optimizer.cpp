#include "rl/optimizer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace fp8rl::rl {

// (1 + cos(pi x)) / 2 on [0, 1] by series: the C library's cosine changes with the CPU's features.
static double half_cosine(double x) {
    double y = (std::numbers::pi / 2) * (1 - x), term = y, sine = y;
    for (int n = 1; n < 12; ++n) {
        term *= -(y * y) / ((2 * n) * (2 * n + 1));
        sine += term;
    }
    return sine * sine;
}

double learning_rate(const OptimizerSettings& s, int64_t step) {
    if (step < s.warmup_steps)
        return s.lr * static_cast<double>(step + 1) / static_cast<double>(s.warmup_steps);
    if (s.schedule == LrSchedule::constant) return s.lr;
    int64_t span = std::max<int64_t>(1, s.total_steps - 1 - s.warmup_steps);
    double done =
        std::clamp(static_cast<double>(step - s.warmup_steps) / static_cast<double>(span), 0.0, 1.0);
    double left = s.schedule == LrSchedule::linear ? 1 - done : half_cosine(done);
    return s.lr * (s.final_fraction + (1 - s.final_fraction) * left);
}

UpdateReport Optimizer::update(int64_t schedule_step) {
    Backend& backend = model_.backend();
    UpdateReport report;
    report.lr = learning_rate(settings_, schedule_step);
    double squares = 0;
    std::string worst;
    model_.params().visit([&](Param& p) {
        if (!p.trained) return;
        double s = backend.sum_squares(p.grad);
        if (!std::isfinite(s) && worst.empty()) worst = p.name;
        squares += s;
    });
    report.grad_norm = std::sqrt(squares);
    if (!std::isfinite(squares)) {
        if (settings_.on_nonfinite == NonFinite::stop)
            defect("the gradient is not finite, first in ", worst,
                   "; train.on_nonfinite: skip would leave this update out");
        report.applied = false;
        model_.zero_grad();
        return report;
    }
    ++updates_;
    AdamwParams a;
    a.lr = static_cast<float>(report.lr);
    a.beta1 = static_cast<float>(settings_.beta1);
    a.beta2 = static_cast<float>(settings_.beta2);
    a.eps = static_cast<float>(settings_.eps);
    // By multiplication, so that every machine gets the same bits.
    double power1 = 1, power2 = 1;
    for (int64_t t = 0; t < updates_ && (power1 > 0 || power2 > 0); ++t)
        power1 *= settings_.beta1, power2 *= settings_.beta2;
    a.correction1 = static_cast<float>(1 - power1);
    a.correction2 = static_cast<float>(1 - power2);
    if (settings_.grad_clip > 0 && report.grad_norm > settings_.grad_clip)
        a.grad_scale = static_cast<float>(settings_.grad_clip / report.grad_norm);
    model_.params().visit([&](Param& p) {
        if (!p.trained) return;
        a.weight_decay =
            static_cast<float>(p.decayed() || settings_.decay_norms ? settings_.weight_decay : 0);
        backend.adamw(p.master, p.grad, p.moment1, p.moment2, a);
    });
    model_.zero_grad();
    model_.prepare();
    return report;
}

void Optimizer::restart() {
    updates_ = 0;
    Backend& backend = model_.backend();
    model_.params().visit([&](Param& p) {
        if (!p.trained) return;
        backend.zero(p.moment1);
        backend.zero(p.moment2);
    });
}

}  // namespace fp8rl::rl
