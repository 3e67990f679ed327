#include "support/figures.hpp"

#include <algorithm>
#include <cmath>

namespace semel::bench {

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double percentile(std::vector<double> values, double part) {
    if (values.empty()) return 0;
    const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(values.size())));
    const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::clamp<std::size_t>(rank, 1, values.size()) - 1);
    std::ranges::nth_element(values, at);
    return *at;
}

void Figures::add(Run run) {
    per_second.push_back(run.per_second);
    if (run.cpu_micros_each > 0) cpu_micros_each.push_back(run.cpu_micros_each);
    if (run.micros.empty()) return;
    p50.push_back(percentile(run.micros, 0.50));
    p99.push_back(percentile(std::move(run.micros), 0.99));
}

}  // namespace semel::bench
