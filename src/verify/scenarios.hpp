// The rules of idempotency as an API's client meets them, each as a scenario with a name.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "verify/probe.hpp"
#include "verify/verdict.hpp"

namespace semel::verify {

struct Scenario {
    std::string_view name;  ///< "replay": stable
    std::string_view rule;  ///< one sentence
    Verdict (*run)(Probe& probe);
    /// Which option it cannot do without; empty: it has all it needs.
    std::string_view (*lacks)(const Subject& subject);
};

/// All of them, in the order they are run.
std::span<const Scenario> scenarios();

/// Nullptr: there is none of that name.
const Scenario* find_scenario(std::string_view name);

/// A scenario that was run.
struct Outcome {
    const Scenario* scenario = nullptr;
    Verdict verdict;
    std::vector<Exchange> exchanges;
    std::chrono::milliseconds took{};
};

/// Told before each scenario with no outcome, and after it with one.
using Progress = std::function<void(const Scenario& scenario, const Outcome* outcome)>;

/// Runs them one after the other. If nobody is there at all, every one fails at once.
std::vector<Outcome> run(Probe& probe, std::span<const Scenario* const> chosen, const Progress& progress);

}  // namespace semel::verify
