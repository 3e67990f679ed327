#include "cli/verify_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/duration.hpp"
#include "base/json.hpp"
#include "cli/table.hpp"
#include "semel/ledger.hpp"

namespace semel::cli {
namespace {

using verify::Failed;
using verify::NotApplicable;
using verify::Outcome;
using verify::Passed;
using verify::Verdict;

constexpr std::size_t exchanges_shown_max = 8;
constexpr std::size_t message_bytes_shown_max = 4096;

std::size_t count_of(const VerifyReport& report, std::size_t index) {
    const auto same = [&](const Outcome& each) { return each.verdict.index() == index; };
    return static_cast<std::size_t>(std::ranges::count_if(report.outcomes, same));
}

std::string_view result_of(const Verdict& verdict) {
    return std::visit(match{[](const Passed&) -> std::string_view { return "passed"; },
                            [](const Failed&) -> std::string_view { return "failed"; },
                            [](const NotApplicable&) -> std::string_view { return "not_applicable"; }},
                      verdict);
}

/// As result_of, for people.
std::string_view shown_result(const Verdict& verdict) {
    return std::holds_alternative<Failed>(verdict)          ? "FAILED"
           : std::holds_alternative<NotApplicable>(verdict) ? "not applicable"
                                                            : "passed";
}

std::string reason_of(const Verdict& verdict) {
    return std::visit(match{[](const Passed& passed) { return passed.note; },
                            [](const Failed& failed) {
                                return fmt::format("{}: expected {}, seen {}", failed.reason, failed.expected,
                                                   failed.seen);
                            },
                            [](const NotApplicable& other) { return other.why; }},
                      verdict);
}

bool shows(const Outcome& outcome, Exchanges exchanges) {
    return exchanges == Exchanges::all || std::holds_alternative<Failed>(outcome.verdict);
}

/// Every line behind `mark`; what a terminal must not be given is written \xNN, and a long message is cut.
std::string indented(std::string_view message, std::string_view mark) {
    const std::size_t left_out = message.size() - std::min(message.size(), message_bytes_shown_max);
    message = message.substr(0, message_bytes_shown_max);
    std::string text;
    while (!message.empty()) {
        std::string_view line = message.substr(0, message.find('\n'));
        message.remove_prefix(std::min(message.size(), line.size() + 1));
        if (line.ends_with('\r')) line.remove_suffix(1);
        text += fmt::format("{}{}\n", mark, printable(line));
    }
    if (left_out > 0) text += fmt::format("{}… and {} bytes more\n", mark, left_out);
    return text;
}

/// `before`: the exchange shown above it, whose request is not shown again; may be null.
std::string exchange_text(const verify::Exchange& exchange, const verify::Exchange* before) {
    std::string text = fmt::format("  {} ({} ms)\n", exchange.label, exchange.took.count());
    const bool same = before != nullptr && before->request == exchange.request;
    text += same ? "    > the same request, byte for byte\n" : indented(exchange.request, "    > ");
    text += indented(exchange.response, "    < ");
    if (!exchange.problem.empty()) text += fmt::format("    ! {}\n", printable(exchange.problem));
    return text;
}

std::string exchanges_text(const Outcome& outcome) {
    std::string text = fmt::format("\n{}: {}\n", outcome.scenario->name, outcome.scenario->rule);
    text += fmt::format("  {}\n", printable(reason_of(outcome.verdict)));
    const std::size_t shown = std::min(outcome.exchanges.size(), exchanges_shown_max);
    for (std::size_t i = 0; i < shown; ++i)
        text += exchange_text(outcome.exchanges[i], i == 0 ? nullptr : &outcome.exchanges[i - 1]);
    if (shown < outcome.exchanges.size())
        text += fmt::format("  … and {} exchanges more: --json shows all\n", outcome.exchanges.size() - shown);
    return text;
}

// ---- JUnit -----------------------------------------------------------------------------------------------------------

/// Text for XML 1.0, which cannot hold most control characters; other bytes that are not UTF-8 become '?'.
std::string xml(std::string_view text) {
    std::string out;
    // json_text has the one reading of UTF-8; what it escapes is undone here, or left out.
    const std::string checked = json_text(text);
    for (std::size_t i = 1; i + 1 < checked.size(); ++i) {
        char c = checked[i];
        if (c == '\\' && checked[i + 1] == 'u') {
            const std::string_view digits = std::string_view(checked).substr(i + 2, 4);
            i += 5;
            out += digits == "000a" ? "\n" : digits == "0009" ? "\t" : digits == "000d" ? "" : "?";
            continue;
        }
        if (c == '\\') c = checked[++i];
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            default: out += c;
        }
    }
    return out;
}

std::string seconds(std::chrono::milliseconds took) {
    return fmt::format("{:.3f}", static_cast<double>(took.count()) / 1e3);
}

std::string test_case(const Outcome& outcome) {
    std::string text = fmt::format("    <testcase classname=\"semel.verify\" name=\"{}\" time=\"{}\">",
                                   outcome.scenario->name, seconds(outcome.took));
    std::visit(match{[](const Passed&) {},
                     [&](const Failed& failed) {
                         text += fmt::format("\n      <failure message=\"{}\" type=\"{}\">{}</failure>\n    ",
                                             xml(reason_of(outcome.verdict)), verify::name(failed.finding),
                                             xml(exchanges_text(outcome)));
                     },
                     [&](const NotApplicable& other) {
                         text += fmt::format("\n      <skipped message=\"{}\"/>\n    ", xml(other.why));
                     }},
               outcome.verdict);
    return text + "</testcase>\n";
}

std::chrono::milliseconds took(const VerifyReport& report) {
    std::chrono::milliseconds sum{};
    for (const Outcome& each : report.outcomes) sum += each.took;
    return sum;
}

}  // namespace

std::size_t VerifyReport::passed() const { return count_of(*this, 0); }
std::size_t VerifyReport::failed() const { return count_of(*this, 1); }
std::size_t VerifyReport::not_applicable() const { return count_of(*this, 2); }

std::string verify_text(const VerifyReport& report, Exchanges exchanges) {
    Table table({{"scenario"}, {"result"}, {"reason"}});
    for (const Outcome& each : report.outcomes)
        table.add({std::string(each.scenario->name), std::string(shown_result(each.verdict)), reason_of(each.verdict)});
    std::string text = table.text();
    text += fmt::format("\n{}: {} passed, {} failed, {} not applicable\n", printable(report.target), report.passed(),
                        report.failed(), report.not_applicable());
    if (!report.counted)
        text +=
            "Effects were NOT counted, only answers were compared: give --count-command, --count-sql or --count-url.\n";
    for (const Outcome& each : report.outcomes)
        if (shows(each, exchanges)) text += exchanges_text(each);
    return text;
}

std::string verify_json(const VerifyReport& report, Exchanges exchanges) {
    JsonWriter json;
    json.begin_object().member("target", report.target).member("began", to_text(report.began));
    json.member("effects_counted", report.counted).member("passed", report.passed()).member("failed", report.failed());
    json.member("not_applicable", report.not_applicable()).name("scenarios").begin_array();
    for (const Outcome& each : report.outcomes) {
        const auto* const failed = std::get_if<Failed>(&each.verdict);
        const auto part = [&](std::string Failed::*which) {
            return failed == nullptr ? std::nullopt : std::optional(failed->*which);
        };
        json.begin_object().member("name", each.scenario->name).member("rule", each.scenario->rule);
        json.member("result", result_of(each.verdict));
        json.member("finding", failed == nullptr ? std::nullopt : std::optional(verify::name(failed->finding)));
        json.member("reason", failed == nullptr ? reason_of(each.verdict) : failed->reason);
        json.member("expected", part(&Failed::expected)).member("seen", part(&Failed::seen));
        json.member("milliseconds", each.took.count()).name("exchanges").begin_array();
        if (shows(each, exchanges))
            for (const verify::Exchange& exchange : each.exchanges) {
                json.begin_object().member("label", exchange.label).member("request", exchange.request);
                json.member("response", exchange.response);
                json.member("problem", exchange.problem.empty() ? std::nullopt : std::optional(exchange.problem));
                json.member("milliseconds", exchange.took.count()).end_object();
            }
        json.end_array().end_object();
    }
    json.end_array().end_object();
    return json.text();
}

std::string verify_junit(const VerifyReport& report) {
    const std::string counts =
        fmt::format("tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\" time=\"{}\"", report.outcomes.size(),
                    report.failed(), report.not_applicable(), seconds(took(report)));
    // JUnit's time stamps have neither fractions nor a zone.
    std::string text = fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {}>\n  <testsuite name=\"{}\" {} timestamp=\"{}\">\n",
        counts, xml("semel verify " + report.target), counts, to_text(report.began).substr(0, 19));
    text +=
        fmt::format("    <properties><property name=\"effects_counted\" value=\"{}\"/></properties>\n", report.counted);
    for (const Outcome& each : report.outcomes) text += test_case(each);
    return text + "  </testsuite>\n</testsuites>\n";
}

// ---- metrics -----------------------------------------------------------------------------------------------------------

void VerifyMetrics::add(const VerifyReport& report) {
    ++rounds_;
    target_ = report.target;
    last_micros_ = micros(report.began);
    last_took_ms_ = took(report).count();
    last_failed_ = report.failed() > 0;
    for (const Outcome& each : report.outcomes) {
        Counts& counts = scenarios_[each.scenario->name];
        counts.last_failed = std::holds_alternative<Failed>(each.verdict);
        std::visit(match{[&](const Passed&) { ++counts.passed; }, [&](const Failed&) { ++counts.failed; },
                         [&](const NotApplicable&) { ++counts.not_applicable; }},
                   each.verdict);
    }
}

std::string VerifyMetrics::text() const {
    std::string target;
    for (const char c : target_) {
        if (c == '"' || c == '\\') target += '\\';
        target += c;
    }
    std::string text;
    const auto family = [&](std::string_view name, std::string_view type, std::string_view help) {
        text += fmt::format("# HELP semel_verify_{} {}\n# TYPE semel_verify_{} {}\n", name, help, name, type);
    };
    const auto sample = [&](std::string_view name, std::string_view value) {
        text += fmt::format("semel_verify_{}{{target=\"{}\"}} {}\n", name, target, value);
    };
    family("rounds_total", "counter", "Rounds of scenarios that were run.");
    sample("rounds_total", std::to_string(rounds_));
    family("last_round_failed", "gauge", "1 if a scenario failed in the last round.");
    sample("last_round_failed", last_failed_ ? "1" : "0");
    family("last_round_timestamp_seconds", "gauge", "When the last round began.");
    sample("last_round_timestamp_seconds", fmt::format("{:.3f}", static_cast<double>(last_micros_) / 1e6));
    family("last_round_duration_seconds", "gauge", "How long the last round took.");
    sample("last_round_duration_seconds", fmt::format("{:.3f}", static_cast<double>(last_took_ms_) / 1e3));
    family("scenario_failed", "gauge", "1 if the scenario failed in the last round.");
    for (const auto& [name, counts] : scenarios_)
        text += fmt::format("semel_verify_scenario_failed{{target=\"{}\",scenario=\"{}\"}} {}\n", target, name,
                            counts.last_failed ? 1 : 0);
    family("scenario_results_total", "counter", "Results of the scenario over all rounds.");
    for (const auto& [name, counts] : scenarios_) {
        const std::pair<std::string_view, std::uint64_t> results[] = {
            {"passed", counts.passed}, {"failed", counts.failed}, {"not_applicable", counts.not_applicable}};
        for (const auto& [result, count] : results)
            text +=
                fmt::format("semel_verify_scenario_results_total{{target=\"{}\",scenario=\"{}\",result=\"{}\"}} {}\n",
                            target, name, result, count);
    }
    return text;
}

}  // namespace semel::cli
