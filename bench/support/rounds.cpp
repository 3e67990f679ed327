#include "support/rounds.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

namespace semel::bench {

Contender& Rounds::add(std::string name, std::function<Run()> run) {
    return contenders_.emplace_back(Contender{std::move(name), std::move(run), {}});
}

void Rounds::run(int rounds) {
    const bool watched = isatty(STDERR_FILENO) == 1;
    for (int round = 0; round < rounds; ++round) {
        std::vector<Contender*> order;
        for (Contender& contender : contenders_) order.push_back(&contender);
        if (round % 2 == 1) std::ranges::reverse(order);
        for (Contender* contender : order) {
            if (watched) fmt::print(stderr, "\r\033[Kround {} of {}: {}", round + 1, rounds, contender->name);
            contender->figures.add(contender->run());
        }
    }
    if (watched) fmt::print(stderr, "\r\033[K");
}

double ratio(const Contender& mine, const Contender& other) {
    std::vector<double> ratios;
    const std::size_t rounds = std::min(mine.figures.per_second.size(), other.figures.per_second.size());
    for (std::size_t i = 0; i < rounds; ++i)
        if (other.figures.per_second[i] > 0) ratios.push_back(mine.figures.per_second[i] / other.figures.per_second[i]);
    return median(std::move(ratios));
}

}  // namespace semel::bench
