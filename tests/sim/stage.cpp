#include "stage.hpp"

#include <algorithm>

namespace semel::sim {
namespace {

/// The highest rate of a fault: per event for crashes and pauses, per occasion for the others.
constexpr std::array<std::pair<std::string_view, double>, fault_count> faults{{
    {"crash", 0.005},           {"reply lost, done", 0.1},  {"reply lost, undone", 0.1}, {"late commit", 0.1},
    {"late rollback", 0.08},    {"connection lost", 0.06},  {"executed twice", 0.15},    {"slow network", 0.08},
    {"instance paused", 0.003}, {"holder paused", 0.25},    {"row locked", 0},  // comes about by itself
    {"poison", 0.15},           {"outage", 0.0015},         {"full for claims", 0.0015}, {"full", 0.001},
    {"clock jump", 0.002},      {"gave up", 0.20},          {"bit rot", 0.002},          {"effect's reply lost", 0.25},
    {"effect sent twice", 0.3}, {"effect not begun", 0.10}, {"outcome forgotten", 0.15}, {"broker lost", 0.05},
    {"broker outage", 0.0015},  {"receipt lost", 0.1},      {"event refused", 0.1},
}};

constexpr std::array<std::string_view, tally_count> tallies{"events",
                                                            "operations",
                                                            "requests",
                                                            "batches",
                                                            "commands",
                                                            "splits",
                                                            "repeats",
                                                            "grants",
                                                            "takeovers",
                                                            "effects",
                                                            "deduplicated",
                                                            "stored",
                                                            "replays",
                                                            "tombstone replays",
                                                            "busy",
                                                            "mismatches",
                                                            "unknowns",
                                                            "expired",
                                                            "fenced",
                                                            "settled late",
                                                            "renewals",
                                                            "releases",
                                                            "unclaimed",
                                                            "abandons",
                                                            "inconclusive",
                                                            "too early",
                                                            "resolved: it happened",
                                                            "resolved: it did not",
                                                            "checkpoints",
                                                            "workflows",
                                                            "joined",
                                                            "in transaction",
                                                            "swept bodies",
                                                            "swept records",
                                                            "owner deaths",
                                                            "corrupt refused",
                                                            "intents",
                                                            "lookups",
                                                            "completed",
                                                            "run to the end",
                                                            "compensated",
                                                            "local steps",
                                                            "staged",
                                                            "published",
                                                            "published again",
                                                            "stuck"};

}  // namespace

std::string_view name(Fault fault) { return faults[static_cast<std::size_t>(fault)].first; }
std::string_view name(Tally tally) { return tallies[static_cast<std::size_t>(tally)]; }

void Counts::add(const Counts& other) {
    for (std::size_t i = 0; i < fault_count; ++i) faults[i] += other.faults[i];
    for (std::size_t i = 0; i < tally_count; ++i) tallies[i] += other.tallies[i];
}

Stage::Stage(std::uint64_t seed, bool print, std::string only)
    : seed_(seed), print_(print), only_(std::move(only)), random_(seed) {
    // A third of the faults is absent from a run, so that each also meets the others' absence.
    for (std::size_t i = 0; i < fault_count; ++i)
        rates_[i] = below(3) == 0 ? 0 : faults[i].second * static_cast<double>(below(100) + 1) / 100;
}

void Stage::after(Duration delay, What what) {
    queue_.emplace(std::pair{now_ + std::max(delay, Duration{0}), ++events_}, std::move(what));
}

bool Stage::step() {
    if (queue_.empty()) return false;
    auto next = queue_.extract(queue_.begin());
    now_ = next.key().first;
    count(Tally::events);
    next.mapped()();
    if (!violation_.empty()) throw Violation(violation_);
    return true;
}

bool Stage::chance(double probability) {
    constexpr double all = 9007199254740992.0;  // 2^53
    return static_cast<double>(random_.bits() >> 11) < probability * all;
}

Duration Stage::between(Duration least, Duration most) {
    return least + Duration{static_cast<Duration::rep>(below(static_cast<std::uint64_t>((most - least).count()) + 1))};
}

bool Stage::strikes(Fault fault) {
    const bool drawn = chance(rate(fault));  // drawn in any case: calm changes nothing else
    if (!drawn || calm_) return false;
    count(fault);
    return true;
}

void Stage::write(const std::string& line) {
    const auto mix = [&](unsigned char byte) { hash_ = (hash_ ^ byte) * 0x100000001b3; };
    auto time = static_cast<std::uint64_t>(now_.count());
    for (int i = 0; i < 8; ++i, time >>= 8) mix(static_cast<unsigned char>(time & 0xff));
    for (const char c : line) mix(static_cast<unsigned char>(c));
    if (print_) fmt::print("{:>12.6f}  {}\n", static_cast<double>(now_.count()) / 1e6, line);
}

void Stage::fail(std::string_view invariant, const std::string& detail) {
    write(fmt::format("VIOLATED {}: {}", invariant, detail));
    if (!only_.empty() && only_ != invariant) return;
    violation_ = fmt::format("seed {}: {}: {}", seed_, invariant, detail);
    throw Violation(violation_);
}

}  // namespace semel::sim
