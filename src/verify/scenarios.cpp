// The scenarios. Each is one intent, sent in the way that goes wrong, and a judgement: first by effects, which cannot lie,
// then by answers.
#include "verify/scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <thread>

#include "verify/compare.hpp"

namespace semel::verify {
namespace {

// ---- judgements that scenarios share -------------------------------------------------------------------------------

/// What was expected of an answer, and what it was instead.
Failed wrong(std::string reason, std::string expected, const Answer& answer) {
    const auto finding = answer.response ? Finding::wrong_answer : Finding::unreachable;
    return {finding, std::move(reason), std::move(expected), answer.text()};
}

/// Nothing: the answer is a 2xx and the effect happened once. `what` is the request, as in "the first try".
std::optional<Failed> unless_done_once(Effects& effects, const Answer& answer, std::string_view what) {
    if (answer.success()) return effects.should_be(1, answer);
    if (auto doubled = effects.should_be_at_most(1, answer)) return doubled;
    return wrong(fmt::format("{} did not succeed", what), "2xx", answer);
}

/// An intent that was carried out once, and what was answered.
struct Carried {
    Intent intent;
    Effects effects;
    Answer first;
};

Carried carry_out(Probe& probe) {
    const Intent intent = probe.new_intent();
    Effects effects(probe, intent);
    Answer first = probe.settle(intent, {.label = "first try"});
    return {intent, std::move(effects), std::move(first)};
}

std::string answered(const Answer& first, const Answer& again) {
    return fmt::format("{}, then {}", first.status(), again.status());
}

// ---- replay --------------------------------------------------------------------------------------------------------

Verdict replay(Probe& probe) {
    auto [intent, effects, first] = carry_out(probe);
    if (!first.success()) return *unless_done_once(effects, first, "the first try");
    const Answer again = probe.settle(intent, {.label = "retry"});
    if (auto failed = unless_done_once(effects, again, "the retry")) return *failed;
    if (auto failed = differing_status(*first.response, *again.response)) return *failed;
    return Passed{answered(first, again) + effects.note()};
}

Verdict replay_bytes(Probe& probe) {
    auto [intent, effects, first] = carry_out(probe);
    if (auto failed = unless_done_once(effects, first, "the first try")) return *failed;
    const Answer again = probe.settle(intent, {.label = "retry"});
    if (!again.response) return wrong("the retry was not answered", first.text(), again);
    if (auto failed = differing_answer(*first.response, *again.response)) return *failed;
    return Passed{fmt::format("{} bytes, the same", again.response->body.size())};
}

Verdict header_hygiene(Probe& probe) {
    auto [intent, effects, first] = carry_out(probe);
    if (auto failed = unless_done_once(effects, first, "the first try")) return *failed;
    const Answer again = probe.settle(intent, {.label = "retry"});
    if (!again.response) return wrong("the retry was not answered", first.text(), again);
    if (auto failed = unclean_replay(*first.response, *again.response)) return *failed;
    return Passed{fmt::format("{} header fields", again.response->fields.size())};
}

// ---- reuse ---------------------------------------------------------------------------------------------------------

Verdict reuse(Probe& probe) {
    const auto other = probe.other_body_of(make_intent(0, probe.subject().key_format));
    if (!other) return NotApplicable{"the body has no number to change: give --other-data"};
    auto [intent, effects, first] = carry_out(probe);
    if (!first.success()) return *unless_done_once(effects, first, "the first try");
    const auto other_body = probe.other_body_of(intent);
    if (other_body == probe.body_of(intent)) return NotApplicable{"--other-data is the same as --data"};
    const Answer reused = probe.settle(intent, {.label = "same key, other body", .body = other_body}, Conflict::answer);
    if (auto failed = effects.should_be(1, first)) {
        if (failed->finding == Finding::doubled) failed->reason = "the other body was carried out under the same key";
        return *failed;
    }
    constexpr std::string_view expected = "422 (or another 4xx)";
    if (reused.success())
        return wrong("the other body was answered as if it were the first", std::string(expected), reused);
    const int status = reused.status();
    if (status < 400 || status > 499 || status == 429 || status == 425)
        return wrong("the other body was not refused as such", std::string(expected), reused);
    // Only if that body is good by itself was it refused because of the key.
    const Intent own = probe.new_intent();
    Effects effects_of_own(probe, own);
    const Answer control = probe.settle(own, {.label = "other body, key of its own", .body = probe.other_body_of(own)});
    if (!control.success())
        return NotApplicable{fmt::format("the other body is refused under a key of its own too ({}): give --other-data",
                                         control.text())};
    if (auto failed = effects_of_own.should_be(1, control)) return *failed;
    return Passed{fmt::format("{}{}{}", reused.text(), status == 422 ? "" : " (the draft says 422)", effects.note())};
}

// ---- parallel ------------------------------------------------------------------------------------------------------

/// "1 x 201, 19 x 409"
std::string tally(const std::vector<Answer>& answers) {
    std::map<std::string, int> counts;
    for (const Answer& each : answers) ++counts[each.response ? std::to_string(each.status()) : "no answer"];
    std::string text;
    for (const auto& [what, count] : counts) text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, what);
    return text;
}

Verdict parallel(Probe& probe) {
    const Intent intent = probe.new_intent();
    Effects effects(probe, intent);
    std::vector<Answer> answers = probe.send_at_once(intent, probe.patience().parallel, "twin");
    const std::string at_first = tally(answers);
    for (std::size_t i = 0; i < answers.size(); ++i)
        if (!is_final(answers[i], Conflict::not_yet))
            answers[i] = probe.settle(intent, {.label = fmt::format("retry of twin {}", i + 1)});
    const auto failing = std::ranges::find_if(answers, [](const Answer& each) { return !each.success(); });
    if (auto failed = unless_done_once(effects, failing == answers.end() ? answers.front() : *failing, "a twin")) {
        failed->seen += fmt::format("; at first {}, in the end {}", at_first, tally(answers));
        return *failed;
    }
    const Response& one = *answers.front().response;
    for (const Answer& each : answers)
        if (differing_answer(one, *each.response))
            return Failed{Finding::wrong_answer, "two twins got different answers", "one answer for all",
                          fmt::format("{} with {} bytes, {} with {} bytes", one.status, one.body.size(), each.status(),
                                      each.response->body.size())};
    return Passed{at_first + effects.note()};
}

// ---- hang up -------------------------------------------------------------------------------------------------------

/// Long enough for a request to be at work, or for its work to be cancelled.
constexpr std::chrono::milliseconds hang_up_pause{100};

/// How long the client waits before it hangs up, and then before it tries again.
struct Pauses {
    Duration hang_up, retry;
};

std::optional<Failed> retry_after_hanging_up(Probe& probe, Pauses pauses, std::string& note) {
    const Intent intent = probe.new_intent();
    Effects effects(probe, intent);
    const auto sent = probe.hang_up(intent, {.label = "first try, hung up before the answer"}, pauses.hang_up);
    if (!sent)
        return Failed{Finding::unreachable, "the request could not be sent", "a request that is taken",
                      sent.failure().message};
    std::this_thread::sleep_for(pauses.retry);
    const Answer again = probe.settle(intent, {.label = "retry"});
    auto failed = unless_done_once(effects, again, "the retry after hanging up");
    note = again.text() + effects.note();
    return failed;
}

Verdict hang_up(Probe& probe) {
    std::string note;
    // The retry races with the try that was given up; then it comes when that one may have been cancelled at work.
    for (const Pauses pauses : {Pauses{Duration::zero(), Duration::zero()}, Pauses{hang_up_pause, hang_up_pause}})
        if (auto failed = retry_after_hanging_up(probe, pauses, note)) return *failed;
    return Passed{note + ", at once and after a moment"};
}

// ---- the key -------------------------------------------------------------------------------------------------------

Verdict key_spelling(Probe& probe) {
    auto [intent, effects, first] = carry_out(probe);
    if (!first.success()) return *unless_done_once(effects, first, "the first try");
    const bool bare = probe.subject().key_spelling == KeySpelling::bare;
    const std::string_view how = bare ? "quoted" : "bare";
    const Answer again = probe.settle(intent, {.label = fmt::format("the same key, {}", how),
                                               .spelling = bare ? KeySpelling::quoted : KeySpelling::bare});
    if (auto failed = effects.should_be(1, first)) {
        if (failed->finding == Finding::doubled) failed->reason = "the quoted and the bare key named two operations";
        return *failed;
    }
    // Who refuses one of the spellings is strict, but nothing happens twice.
    if (again.status() == 400) return Passed{fmt::format("the {} key is refused (400){}", how, effects.note())};
    if (!again.response) return wrong(fmt::format("the {} key was not answered", how), first.text(), again);
    if (auto failed = differing_status(*first.response, *again.response)) return *failed;
    if (!probe.counts())
        if (auto failed = differing_answer(*first.response, *again.response)) return *failed;
    return Passed{answered(first, again) + effects.note()};
}

Verdict missing_key(Probe& probe) {
    const Intent intent = probe.new_intent();
    Effects effects(probe, intent);
    const Answer answer =
        probe.settle(intent, {.label = "without a key", .spelling = KeySpelling::none}, Conflict::answer);
    if (probe.subject().key_optional) {
        if (auto failed = unless_done_once(effects, answer, "the request without a key")) return *failed;
        return Passed{answer.text() + effects.note()};
    }
    const std::string expected = "400 (--key-optional if keys are optional)";
    if (auto failed = effects.should_be(0, answer)) {
        if (failed->finding == Finding::doubled) {
            failed->finding = Finding::wrong_answer;
            failed->reason = "a request without a key was carried out";
            failed->expected = expected;
            failed->seen = answer.text() + effects.note();
        }
        return *failed;
    }
    const int status = answer.status();
    if (status >= 400 && status < 500 && status != 429 && status != 425) return Passed{answer.text() + effects.note()};
    return wrong("a request without a key was not refused", expected, answer);
}

// ---- tenants -------------------------------------------------------------------------------------------------------

/// Without a count: whether the other tenant got the first one's answer, as far as answers can tell.
Verdict compare_tenants(Probe& probe, const Answer& first, const Answer& other) {
    const Answer control = probe.settle(probe.new_intent(), {.label = "first tenant, another key"});
    if (control.success() && control.response->body == first.response->body)
        return NotApplicable{"all answers are alike, so that none can be told to be another's: give a way to count"};
    if (other.response->body == first.response->body)
        return Failed{Finding::leaked, "the other tenant got the first one's answer", "an answer of its own",
                      "the same body"};
    return Passed{answered(first, other)};
}

Verdict other_tenant(Probe& probe) {
    if (probe.subject().other_tenant.empty()) return NotApplicable{"give --other-tenant 'Authorization: …'"};
    auto [intent, effects, first] = carry_out(probe);
    if (auto failed = unless_done_once(effects, first, "the first try")) return *failed;
    Effects own(probe, intent);
    const Answer other =
        probe.settle(intent, {.label = "the same key, other tenant", .headers = probe.subject().other_tenant});
    if (other.status() == 401 || other.status() == 403)
        return NotApplicable{fmt::format("the other tenant is refused ({}): check --other-tenant", other.text())};
    if (!other.success())
        return wrong("one tenant's key stands in another's way", "2xx, an operation of its own", other);
    if (other.response->value("Idempotent-Replayed") == "true")
        return Failed{Finding::leaked, "the other tenant was served a replay", "an operation of its own", other.text()};
    if (!probe.counts()) return compare_tenants(probe, first, other);
    if (auto failed = own.should_be(1, other)) {
        if (failed->finding == Finding::lost && other.response->body == first.response->body)
            return Failed{Finding::leaked, "the other tenant got the first one's answer, and no effect of its own",
                          "an operation of its own", "the same body" + own.note()};
        return *failed;
    }
    return Passed{answered(first, other) + ", 1 effect each"};
}

// ---- errors --------------------------------------------------------------------------------------------------------

constexpr int error_retries = 3;

Verdict retry_after_error(Probe& probe) {
    const Subject& subject = probe.subject();
    if (subject.error_headers.empty() && !subject.error_body)
        return NotApplicable{"give --error-header or --error-data, which makes a request fail with a 5xx"};
    const Intent intent = probe.new_intent();
    Effects effects(probe, intent);
    const auto body = subject.error_body ? std::optional(fill_in(*subject.error_body, intent)) : std::nullopt;
    const Answer first =
        probe.send(intent, {.label = "first try, made to fail", .body = body, .headers = subject.error_headers});
    if (first.status() < 500)
        return NotApplicable{
            fmt::format("what should make a request fail did not ({}): check --error-header and "
                        "--error-data",
                        first.text())};
    Answer last = first;
    for (int i = 1; i <= error_retries; ++i)
        last = probe.settle(intent, {.label = fmt::format("retry {}", i), .body = body});
    // A 2xx promises the effect; anything else leaves open whether it happened, but it never happens twice.
    auto failed = last.success() ? effects.should_be(1, last) : effects.should_be_at_most(1, last);
    if (failed) {
        if (failed->finding == Finding::doubled)
            failed->reason = fmt::format("it ran again after a {}", first.status());
        if (failed->finding == Finding::lost)
            failed->reason = fmt::format("after a {} the retry was answered {}, but the effect did not happen",
                                         first.status(), last.status());
        return *failed;
    }
    if (!last.response) return wrong("the retry was not answered", "an answer", last);
    return Passed{answered(first, last) + effects.note()};
}

// ---- late effects --------------------------------------------------------------------------------------------------

Verdict late_effects(Probe& probe) {
    if (!probe.counts()) return NotApplicable{"effects are not counted"};
    if (probe.counts_per_intent()) return NotApplicable{"the count is of one intent at a time"};
    const auto before = probe.last_count();
    if (!before) return NotApplicable{"nothing was counted before"};
    std::this_thread::sleep_for(probe.patience().count_settle);
    const auto now = probe.count({});
    if (!now) return Failed{Finding::uncounted, "the effects could not be counted", "a count", now.failure().message};
    if (**now == *before) return Passed{"none"};
    return Failed{Finding::doubled, "effects appeared after their scenario had ended",
                  fmt::format("{} in all", *before), fmt::format("{} in all", **now)};
}

// ---- the list ------------------------------------------------------------------------------------------------------

std::string_view lacks_nothing(const Subject&) { return {}; }
std::string_view lacks_tenant(const Subject& subject) {
    return subject.other_tenant.empty() ? "--other-tenant" : std::string_view();
}
std::string_view lacks_error(const Subject& subject) {
    return subject.error_headers.empty() && !subject.error_body ? "--error-header or --error-data" : std::string_view();
}

constexpr std::array<Scenario, 11> all{{
    {"replay", "a retry with the same key has no effect and the same status", replay, lacks_nothing},
    {"reuse", "the same key with another body is refused and has no effect", reuse, lacks_nothing},
    {"parallel", "twins sent at once have one effect and get one answer", parallel, lacks_nothing},
    {"hang-up", "who hangs up before the answer and retries has one effect", hang_up, lacks_nothing},
    {"key-spelling", "the quoted and the bare key name one operation", key_spelling, lacks_nothing},
    {"missing-key", "a request without a key is refused", missing_key, lacks_nothing},
    {"other-tenant", "the same key of another tenant is another operation", other_tenant, lacks_tenant},
    {"retry-after-error", "after a 5xx a retry neither doubles the effect nor loses it", retry_after_error,
     lacks_error},
    {"replay-bytes", "a replay is the first answer, byte for byte", replay_bytes, lacks_nothing},
    {"header-hygiene", "a replay holds no cookie, challenge or hop-by-hop field", header_hygiene, lacks_nothing},
    {"late-effects", "no effect appears after its scenario has ended", late_effects, lacks_nothing},
}};

}  // namespace

std::span<const Scenario> scenarios() { return all; }

const Scenario* find_scenario(std::string_view name) {
    const auto found = std::ranges::find(all, name, &Scenario::name);
    return found == all.end() ? nullptr : &*found;
}

std::string_view name(Finding finding) {
    switch (finding) {
        case Finding::doubled: return "doubled";
        case Finding::lost: return "lost";
        case Finding::leaked: return "leaked";
        case Finding::wrong_answer: return "wrong_answer";
        case Finding::unreachable: return "unreachable";
        case Finding::uncounted: return "uncounted";
    }
    return "";
}

std::vector<Outcome> run(Probe& probe, std::span<const Scenario* const> chosen, const Progress& progress) {
    std::vector<Outcome> outcomes;
    const auto reached = probe.reach();
    for (const Scenario* const scenario : chosen) {
        progress(*scenario, nullptr);
        const auto began = std::chrono::steady_clock::now();
        const auto verdict = [&]() -> Verdict {
            if (reached) return scenario->run(probe);
            return Failed{Finding::unreachable, "nobody is there", "a connection", reached.failure().message};
        };
        Outcome outcome{.scenario = scenario, .verdict = verdict(), .exchanges = {}, .took = {}};
        outcome.took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - began);
        outcome.exchanges = probe.take_exchanges();
        probe.rest();
        progress(*scenario, &outcome);
        outcomes.push_back(std::move(outcome));
    }
    return outcomes;
}

}  // namespace semel::verify
