// What the options of `semel verify` mean. Everything is read and checked before anything is sent.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/verify_report.hpp"
#include "semel/result.hpp"
#include "semel/time.hpp"
#include "verify/scenarios.hpp"

namespace semel::cli {

/// The words as they were given; empty or nothing: not given.
struct VerifyOptions {
    std::optional<std::string> url;
    std::string method = "POST";
    std::optional<std::string> data;
    std::vector<std::string> headers;
    std::string key_header = "Idempotency-Key";
    std::string key_format = "uuid";
    bool quoted_key = false;
    bool key_optional = false;
    std::optional<std::string> other_data;
    std::vector<std::string> other_tenant;
    std::vector<std::string> error_headers;
    std::optional<std::string> error_data;
    std::vector<std::string> secret_headers;
    bool literal = false;

    std::optional<std::string> count_command;
    std::vector<std::string> count_sql;
    std::optional<std::string> count_url;
    std::optional<std::string> count_pointer;
    std::vector<std::string> count_headers;

    std::vector<std::string> only;
    std::vector<std::string> skip;
    bool list = false;
    std::string parallel = "20";
    std::string timeout = "10s";
    std::string retry_within = "10s";
    std::string count_within = "5s";
    std::string count_settle = "300ms";
    std::string cacert;

    bool json = false;
    std::string junit;
    bool all_exchanges = false;
    std::optional<std::string> every;
    std::optional<std::string> rounds;
    std::string metrics_file;
};

/// What the options mean.
struct VerifyPlan {
    verify::Subject subject;
    verify::Patience patience;
    verify::Tls tls;                           ///< the counter may refer to it: a plan stays where it was made
    std::unique_ptr<verify::Counter> counter;  ///< null: effects are not counted
    std::vector<const verify::Scenario*> chosen;
    Exchanges exchanges = Exchanges::of_failures;
    std::optional<Duration> every;
    std::uint64_t rounds_max = 1;
};

/// `invalid`: an option that is not understood, with what would be right. No file is made and no connection.
Result<std::unique_ptr<VerifyPlan>> read_plan(const VerifyOptions& options);

}  // namespace semel::cli
