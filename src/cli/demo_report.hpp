// What the demo shows: progress while it runs, then the figures and the verdict.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/demo_plan.hpp"
#include "cli/demo_wallet.hpp"

namespace semel::cli::demo {

struct Tally {
    std::uint64_t payments = 0;
    std::uint64_t requests = 0;    ///< from clients, retries included
    std::uint64_t deliveries = 0;  ///< to the consumer, redeliveries included
    std::uint64_t applied = 0;     ///< credits in the wallets' audit
    std::uint64_t charges = 0;     ///< by the provider
    std::array<std::uint64_t, all_duplicates.size()> injected{};
    std::array<std::uint64_t, all_duplicates.size()> absorbed{};

    /// Counts a duplicate, and whether it made no difference.
    void count(Duplicate duplicate, bool was_absorbed) {
        ++injected[static_cast<std::size_t>(duplicate)];
        if (was_absorbed) ++absorbed[static_cast<std::size_t>(duplicate)];
    }
    [[nodiscard]] std::uint64_t injected_in_all() const;
    [[nodiscard]] std::uint64_t absorbed_in_all() const;
};

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

/// One line: how far it is, and what was absorbed so far.
std::string progress_line(const Tally& tally, std::size_t done, const Paint& paint);

std::string report(const Tally& tally, const std::vector<Wallet::Check>& checks, const Paint& paint);

}  // namespace semel::cli::demo
