// Rounds: everything that is compared runs once per round, so that a slow minute of the machine slows all of it.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "support/figures.hpp"

namespace semel::bench {

struct Contender {
    std::string name;
    std::function<Run()> run;
    Figures figures;
};

class Rounds {
public:
    /// The reference stays valid.
    Contender& add(std::string name, std::function<Run()> run);
    /// Every second round goes backwards: nobody always follows the same neighbour.
    void run(int rounds);

private:
    std::deque<Contender> contenders_;
};

/// The median over the rounds of `mine` as a multiple of `other` in the same round.
double ratio(const Contender& mine, const Contender& other);

}  // namespace semel::bench
