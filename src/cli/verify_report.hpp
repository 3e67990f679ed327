// What `semel verify` found, for people and for programs.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "semel/time.hpp"
#include "verify/scenarios.hpp"

namespace semel::cli {

/// One round of scenarios.
struct VerifyReport {
    std::string target;  ///< method and URL
    bool counted = false;
    TimePoint began;
    std::vector<verify::Outcome> outcomes;

    [[nodiscard]] std::size_t passed() const;
    [[nodiscard]] std::size_t failed() const;
    [[nodiscard]] std::size_t not_applicable() const;
};

/// Which exchanges are shown.
enum class Exchanges : std::uint8_t { of_failures, all };

/// A table, a summary, and the exchanges.
std::string verify_text(const VerifyReport& report, Exchanges exchanges);
/// One JSON object on one line.
std::string verify_json(const VerifyReport& report, Exchanges exchanges);
/// A document that CI systems read as JUnit's.
std::string verify_junit(const VerifyReport& report);

/// What a canary tells over its rounds, in the text format of Prometheus.
class VerifyMetrics {
public:
    void add(const VerifyReport& report);
    [[nodiscard]] std::string text() const;

private:
    struct Counts {
        bool last_failed = false;
        std::uint64_t passed = 0;
        std::uint64_t failed = 0;
        std::uint64_t not_applicable = 0;
    };
    std::map<std::string_view, Counts> scenarios_;
    std::string target_;
    std::uint64_t rounds_ = 0;
    std::int64_t last_micros_ = 0;
    std::int64_t last_took_ms_ = 0;
    bool last_failed_ = false;
};

}  // namespace semel::cli
