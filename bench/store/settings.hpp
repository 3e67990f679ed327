// What `bench_store` was asked for, and its three parts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/report.hpp"

namespace semel::bench {

struct Settings {
    std::vector<std::string> stores{"sqlite", "postgres"};
    std::vector<std::size_t> callers{1, 8, 64, 512};
    int rounds = 5;
    double seconds = 1.5;
    std::size_t body_bytes = 256;
    std::string folder;    ///< for SQLite's files; empty: beside the program
    std::string postgres;  ///< empty: not measured
    std::vector<std::uint64_t> records{100'000, 1'000'000, 10'000'000};  ///< sizes of the ledgers that are compared
    std::size_t sessions = 0;                                            ///< of PostgreSQL; zero: the store's default
    bool full = false;                                                   ///< the sizes that take long, too

    [[nodiscard]] bool wants(std::string_view store) const;
};

/// Claim and settle, beside the loops somebody would write by hand.
void measure_pairs(const Settings& settings, Report& report);
/// What a claim costs as the records become many; memory and disk.
void measure_growth(const Settings& settings, Report& report);
/// What a sweep beside them does to claims.
void measure_sweep(const Settings& settings, Report& report);

}  // namespace semel::bench
