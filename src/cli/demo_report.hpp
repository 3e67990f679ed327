// What the demo shows: progress while the traffic runs, then the figures and the verdict.
#pragma once

#include <string>
#include <string_view>

#include "cli/demo_traffic.hpp"

namespace semel::cli::demo {

/// Colours for a terminal, or none.
class Paint {
public:
    explicit Paint(bool on) : on_(on) {}
    [[nodiscard]] std::string good(std::string_view text) const { return in("32", text); }
    [[nodiscard]] std::string bad(std::string_view text) const { return in("31;1", text); }
    [[nodiscard]] std::string bold(std::string_view text) const { return in("1", text); }
    [[nodiscard]] std::string dim(std::string_view text) const { return in("2", text); }

private:
    [[nodiscard]] std::string in(std::string_view code, std::string_view text) const;
    bool on_;
};

/// One line: how far it is, and what was told so far.
std::string progress_line(const Tally& tally, std::size_t payments, std::uint64_t charges, const Paint& paint);

std::string report(const Plan& plan, const Tally& tally, const Verdict& verdict, const Paint& paint);

}  // namespace semel::cli::demo
