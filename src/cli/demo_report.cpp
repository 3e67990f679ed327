#include "cli/demo_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.hpp"

namespace semel::cli::demo {
namespace {

std::string troubles(const Plan& plan) {
    using enum Table::Align;
    Table table({{"WHAT HAPPENED"}, {"PAYMENTS", right}, {"WHAT THE CLIENT WAS TOLD THEN"}});
    const auto add = [&](Trouble trouble) {
        const auto count = std::ranges::count(plan.steps, trouble, &Step::trouble);
        table.add({std::string(name(trouble)), std::to_string(count), std::string(told(trouble))});
    };
    for (const Trouble each : all_troubles) add(each);
    add(Trouble::none);
    return table.text();
}

}  // namespace

std::string Paint::in(std::string_view code, std::string_view text) const {
    return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

std::string progress_line(const Tally& tally, std::size_t payments, std::uint64_t charges, const Paint& paint) {
    constexpr std::size_t width = 16;  // the whole line fits a terminal of 80 columns
    const std::size_t filled = payments == 0 ? width : tally.done * width / payments;
    std::string bar;
    for (std::size_t i = 0; i < width; ++i) bar += i < filled ? "█" : "░";
    return fmt::format("{} {:>3}/{} payments · {} requests · {} charges · {} replays", paint.good(bar), tally.done,
                       payments, tally.requests, charges, tally.replays);
}

std::string report(const Plan& plan, const Tally& tally, const Verdict& verdict, const Paint& paint) {
    using enum Table::Align;
    Table table({{"IN ALL"}, {"", right}, {""}});
    const auto add = [&](std::string_view what, std::uint64_t count, std::string_view why) {
        table.add({std::string(what), std::to_string(count), std::string(why)});
    };
    add("requests sent", tally.requests, fmt::format("for {} payments", plan.steps.size()));
    add("duplicates among them", tally.duplicates, "a payment that was sent before");
    add("charges made", verdict.charges, "counted by the API itself, which never looks at keys");
    add("replays", tally.replays, "the first answer again");
    add("conflicts", tally.conflicts, "409: the first one is still running");
    add("mismatches", tally.mismatches, "422: the key belongs to another payment");
    add("told: outcome unknown", tally.unknown,
        fmt::format("502, then 409: {} payments, with those that a crash cut", verdict.unknown));
    add("told: try again", tally.released, "502, 503: nothing was done");
    add("not waited for", tally.hung_up, "the client hung up");
    std::string text = troubles(plan) + '\n' + table.text() + '\n';
    for (const Check& check : verdict.checks)
        text += fmt::format("  {} {}\n", check.passed ? paint.good("✓") : paint.bad("✗ NOT TRUE:"), check.what);
    return text;
}

}  // namespace semel::cli::demo
