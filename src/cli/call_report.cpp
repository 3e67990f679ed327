#include "cli/call_report.hpp"

#include <fmt/format.h>

#include "base/json.hpp"
#include "cli/exit_code.hpp"
#include "client/decision.hpp"
#include "semel/ledger.hpp"

namespace semel::cli {
namespace {

using client::GaveUp;
using client::NotRetained;
using client::OutcomeUnknown;
using client::Refused;
using client::Report;
using client::Succeeded;

bool is_success(int status) { return status >= 200 && status < 300; }

const HttpAnswer* answer_of(const Report& report) {
    return std::visit(match{[](const Succeeded& end) -> const HttpAnswer* { return &end.answer; },
                            [](const NotRetained&) -> const HttpAnswer* { return nullptr; },
                            [](const Refused& end) -> const HttpAnswer* { return &end.answer; },
                            [](const OutcomeUnknown& end) -> const HttpAnswer* { return &end.answer; },
                            [](const GaveUp&) -> const HttpAnswer* { return nullptr; }},
                      report.outcome);
}

std::optional<int> status_of(const Report& report) {
    if (const auto* end = std::get_if<NotRetained>(&report.outcome)) return end->status;
    const HttpAnswer* const answer = answer_of(report);
    if (answer == nullptr) return std::nullopt;
    return answer->status;
}

bool is_replayed(const Report& report) {
    if (const auto* end = std::get_if<Succeeded>(&report.outcome)) return end->replayed;
    if (const auto* end = std::get_if<Refused>(&report.outcome)) return end->replayed;
    return false;
}

bool is_doubtful(const Report& report) {
    if (const auto* end = std::get_if<Refused>(&report.outcome)) return end->doubt;
    if (const auto* end = std::get_if<GaveUp>(&report.outcome)) return end->may_have_executed;
    return std::holds_alternative<OutcomeUnknown>(report.outcome);
}

std::string tries_text(const Report& report) {
    if (report.recorded) return "recorded by an earlier run, nothing was sent now";
    return fmt::format("after {} {}", report.tries, report.tries == 1 ? "try" : "tries");
}

std::string answered(int status, bool replayed) {
    return replayed ? fmt::format("{}, an answer given before (replayed)", status) : fmt::format("{}", status);
}

std::string cut(const HttpAnswer& answer) {
    if (answer.whole) return "";
    return answer.body.empty() ? "; the body was not stored" : "; the body is longer than is read, and cut";
}

std::string gave_up(const GaveUp& end, std::string_view intent, std::string_view tries, std::string_view again) {
    const std::string_view known = end.may_have_executed ? "not known: it may have been executed"
                                   : intent.empty()      ? "not done: surely not executed by this run, and nothing is "
                                                           "known of earlier runs with this key"
                                                         : "not done: surely not executed";
    return fmt::format("{}: {}, {}{}{}; to repeat the same operation: {}", known, end.why, tries,
                       end.last.empty() ? "" : "; the last one: ", end.last, again);
}

std::string refused(const Refused& end, std::string_view tries, std::string_view again) {
    std::string text = fmt::format("refused: {}, {}", answered(end.answer.status, end.replayed), tries);
    if (end.doubt) text += "; an earlier try may have been executed nevertheless";
    if (!client::is_settled(end))
        text += fmt::format("; when that is put right, to repeat the same operation: {}", again);
    return text + cut(end.answer);
}

}  // namespace

std::string_view call_known(const Report& report, std::string_view intent) {
    return std::visit(match{[](const Succeeded&) -> std::string_view { return "done"; },
                            [](const NotRetained& end) -> std::string_view {
                                if (!end.status) return "executed";
                                return is_success(*end.status) ? "done" : "refused";
                            },
                            [](const Refused&) -> std::string_view { return "refused"; },
                            [](const OutcomeUnknown&) -> std::string_view { return "outcome-unknown"; },
                            [&](const GaveUp& end) -> std::string_view {
                                if (end.may_have_executed) return "may-have-executed";
                                return intent.empty() ? "not-executed-now" : "not-executed";
                            }},
                      report.outcome);
}

std::string call_text(const Report& report, std::string_view intent, std::string_view again) {
    const std::string tries = tries_text(report);
    const std::string text = std::visit(
        match{[&](const Succeeded& end) {
                  return fmt::format("done: {}, {}{}", answered(end.answer.status, end.replayed), tries,
                                     cut(end.answer));
              },
              [&](const NotRetained& end) {
                  return fmt::format("{}, {}; the server no longer has the answer",
                                     end.status ? fmt::format("{}: {} was answered before",
                                                              is_success(*end.status) ? "done" : "refused", *end.status)
                                                : "executed before, with an answer nobody knows",
                                     tries);
              },
              [&](const Refused& end) { return refused(end, tries, again); },
              [&](const OutcomeUnknown& end) {
                  return fmt::format(
                      "not known: the server answered {} outcome-unknown, {}: an earlier request was begun, and nobody "
                      "knows whether it was executed; when that is resolved there, to ask again: {}",
                      end.answer.status, tries, again);
              },
              [&](const GaveUp& end) { return gave_up(end, intent, tries, again); }},
        report.outcome);
    return fmt::format("{}; key {}", text, report.key.text());
}

std::string_view call_body(const Report& report) {
    const HttpAnswer* const answer = answer_of(report);
    return answer == nullptr ? std::string_view() : std::string_view(answer->body);
}

std::string call_json(const Report& report, std::string_view intent, std::string_view again) {
    const HttpAnswer* const answer = answer_of(report);
    JsonWriter json;
    json.begin_object().member("known", call_known(report, intent));
    if (intent.empty())
        json.name("intent").null();
    else
        json.member("intent", intent);
    json.member("key", report.key.text())
        .member("status", status_of(report))
        .member("replayed", is_replayed(report))
        .member("recorded", report.recorded)
        .member("doubt", is_doubtful(report))
        .member("tries", report.tries)
        .member("message", call_text(report, intent, again));
    if (answer == nullptr)
        json.name("body").null();
    else
        json.member("body", answer->body);
    json.member("body_whole", answer == nullptr || answer->whole);
    json.end_object();
    return json.text();
}

int call_exit_code(const Report& report) { return call_known(report, {}) == "done" ? exit_ok : exit_failure; }

}  // namespace semel::cli
