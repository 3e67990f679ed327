#include "curl/answer.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>

#include "http/chars.hpp"
#include "http/fields.hpp"
#include "http/problem.hpp"
#include "ledger/json_document.hpp"

namespace semel {
namespace {

/// Far more than anybody waits for.
constexpr std::int64_t retry_after_seconds_max = 366L * 24 * 3600;

std::optional<int> status_in(const JsonDocument::Node& node) {
    int status = 0;
    const char* const end = node.text.data() + node.text.size();
    if (node.kind != JsonDocument::Kind::number) return std::nullopt;
    const auto [rest, error] = std::from_chars(node.text.data(), end, status);
    if (error != std::errc{} || rest != end || status < 200 || status > 599) return std::nullopt;
    return status;
}

Duration seconds_of(std::int64_t count) {
    return std::chrono::seconds{std::clamp<std::int64_t>(count, 0, retry_after_seconds_max)};
}

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::optional<std::string_view> HttpAnswer::value(std::string_view name) const {
    for (const HttpField& field : fields)
        if (http::same_name(field.name, name)) return field.value;
    return std::nullopt;
}

bool is_replayed(const HttpAnswer& answer) {
    const auto value = answer.value("Idempotent-Replayed");
    return value && (http::same_name(*value, "true") || *value == "?1");
}

std::optional<Duration> retry_after(const HttpAnswer& answer, TimePoint now) {
    const auto value = answer.value("Retry-After");
    if (!value || value->empty()) return std::nullopt;
    if (std::ranges::all_of(*value, is_digit)) {
        std::int64_t seconds = 0;
        const auto [rest, error] = std::from_chars(value->data(), value->data() + value->size(), seconds);
        return seconds_of(error == std::errc{} ? seconds : retry_after_seconds_max);
    }
    const time_t at = curl_getdate(std::string(*value).c_str(), nullptr);
    if (at < 0) return std::nullopt;
    // Cut before it is counted in microseconds: a year may have ten digits.
    const std::int64_t latest = micros(now) / 1'000'000 + retry_after_seconds_max + 1;
    const auto wait = Duration{std::chrono::seconds{std::min<std::int64_t>(at, latest)}} - now.time_since_epoch();
    return std::clamp(wait, Duration::zero(), seconds_of(retry_after_seconds_max));
}

std::optional<SemelProblem> read_problem(std::string_view content_type, std::string_view body) {
    if (!http::same_name(http::trimmed(content_type.substr(0, content_type.find(';'))), http::problem_content_type))
        return std::nullopt;
    const auto document = JsonDocument::parse(body);
    if (!document || document->node(0).kind != JsonDocument::Kind::object) return std::nullopt;
    SemelProblem problem;
    for (const JsonDocument::Index name : document->members(document->node(0))) {
        const JsonDocument::Node& value = document->node(name + 1);
        const std::string_view text = document->node(name).text;
        if (text == "type" && value.kind == JsonDocument::Kind::string &&
            value.text.starts_with(http::problem_type_prefix))
            problem.slug = value.text.substr(http::problem_type_prefix.size());
        if (text == "retryable") problem.retryable = value.kind == JsonDocument::Kind::literal && value.text == "true";
        if (text == "outcome_status") problem.outcome_status = status_in(value);
    }
    // It ends up in messages.
    if (problem.slug.empty() || problem.slug.size() > 64 || !http::all_of(problem.slug, http::token_char))
        return std::nullopt;
    return problem;
}

std::optional<SemelProblem> read_problem(const HttpAnswer& answer) {
    if (!answer.whole) return std::nullopt;
    return read_problem(answer.value("Content-Type").value_or(""), answer.body);
}

}  // namespace semel
