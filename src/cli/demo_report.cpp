#include "cli/demo_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cli/table.hpp"

namespace semel::cli::demo {

std::uint64_t Tally::injected_in_all() const {
    return std::accumulate(injected.begin(), injected.end(), std::uint64_t{0});
}
std::uint64_t Tally::absorbed_in_all() const {
    return std::accumulate(absorbed.begin(), absorbed.end(), std::uint64_t{0});
}

std::string Paint::in(std::string_view code, std::string_view text) const {
    return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string progress_line(const Tally& tally, std::size_t done, const Paint& paint) {
    constexpr std::size_t width = 16;  // the whole line fits a terminal of 80 columns
    const std::size_t filled = tally.payments == 0 ? width : done * width / tally.payments;
    std::string bar;
    for (std::size_t i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
    return fmt::format("{} {:>3}/{} payments · {} of {} duplicates absorbed · {} kills", paint.good(bar), done,
                       tally.payments, tally.absorbed_in_all(), tally.injected_in_all(),
                       tally.injected[static_cast<std::size_t>(Duplicate::consumer_crash)]);
}

std::string report(const Tally& tally, const std::vector<Wallet::Check>& checks, const Paint& paint) {
    using enum Table::Align;
    Table table({{"ARRIVED TWICE BY"}, {"INJECTED", right}, {"ABSORBED", right}, {"MADE HARMLESS BY"}});
    for (const Duplicate each : all_duplicates) {
        const auto at = static_cast<std::size_t>(each);
        table.add({std::string(name(each)), std::to_string(tally.injected[at]), std::to_string(tally.absorbed[at]),
                   std::string(absorbed_by(each))});
    }
    table.add({"in all", std::to_string(tally.injected_in_all()), std::to_string(tally.absorbed_in_all()), ""});
    std::string text = table.text();
    text += fmt::format("\n{} payments · {} requests · {} deliveries to the consumer\n", tally.payments, tally.requests,
                        tally.deliveries);
    text += paint.bold(
                fmt::format("{} applied to the wallets · {} charges by the provider", tally.applied, tally.charges)) +
            "\n\n";
    for (const Wallet::Check& check : checks)
        text += fmt::format("  {} {}\n", check.passed ? paint.good("✓") : paint.bad("✗ NOT TRUE:"), check.what);
    return text;
}

}  // namespace semel::cli::demo
