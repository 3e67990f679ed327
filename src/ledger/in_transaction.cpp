#include "ledger/in_transaction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/quote.hpp"

namespace semel {
namespace {

constexpr Duration retention_min = std::chrono::seconds{1};
constexpr Duration span_max = std::chrono::hours{24 * 366 * 100};
constexpr Duration key_ahead_max = std::chrono::minutes{5};
constexpr std::size_t correlation_bytes_max = 255;
constexpr std::size_t outcome_bytes_max = 64U << 20;

Status check_span(std::string_view what, const std::optional<Duration>& span, Duration least) {
    if (!span || (*span >= least && *span <= span_max)) return Done{};
    constexpr std::chrono::milliseconds ms{1};
    return Failure{Code::invalid, fmt::format("{} is {} ms; it must be between {} ms and {} ms", what, *span / ms,
                                              least / ms, span_max / ms)};
}

}  // namespace

Status check(const Operation& operation, const OnceOptions& options, std::optional<TimePoint> now) {
    if (auto ok = check_span("retention", options.retention.identity, retention_min); !ok) return ok;
    if (auto ok = check_span("response_retention", options.retention.response, Duration{0}); !ok) return ok;
    const auto printable = [](unsigned char c) { return c >= 0x20 && c <= 0x7e; };
    if (options.correlation.size() > correlation_bytes_max || !std::ranges::all_of(options.correlation, printable))
        return Failure{Code::invalid, fmt::format("correlation {}: must be at most 255 printable ASCII characters",
                                                  in_quotes(options.correlation))};
    const auto key_time = key_time_of(operation, options);
    if (now && key_time && *key_time > later(*now, key_ahead_max))
        return Failure{Code::invalid, fmt::format("key {}: its time is more than 5 minutes ahead of the server's clock",
                                                  in_quotes(operation.key.text()))};
    return Done{};
}

Status check(const Outcome& outcome) {
    if (outcome.body.size() > outcome_bytes_max)
        return Failure{Code::invalid,
                       "settle: an outcome has at most 64 MiB; settle a larger one without it, as a tombstone"};
    if (!outcome.kept && !outcome.body.empty()) return Failure{Code::invalid, "settle: a tombstone has no body"};
    return Done{};
}

std::optional<TimePoint> key_time_of(const Operation& operation, const OnceOptions& options) {
    if (options.key_time || !options.retention.identity) return options.key_time;
    return operation.key.time();
}

Decision settle_in_transaction(std::optional<Record> record, const OperationId& id, const Claimed& claimed,
                               const Outcome& outcome, const TransactionId& here, TimePoint now) {
    if (record && record->token == claimed.token && record->state == State::settled && record->attempt != here) {
        Settled answer{record->outcome};
        return {std::move(answer), std::move(record), false};
    }
    const bool by_token = record && (record->attempt == here || claimed.attempt == Attempt{});
    const Attempt attempt = by_token ? record->attempt : claimed.attempt;
    return decide(std::move(record), Settle{{id, claimed.token, attempt}, outcome, true}, {now, Token{}, Epoch{}});
}

}  // namespace semel
