#include "api/answers.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include "base/base64.hpp"
#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "base/json.hpp"
#include "ledger/record_json.hpp"

namespace semel::api {
namespace {

using http::Problem;

std::string text_of(Token token) { return fmt::format("{}", token.value); }

/// Text where it is text, so that a client gets the very bytes either way (I2).
void write_bytes(JsonWriter& json, std::string_view name, std::string_view bytes) {
    if (simdjson::validate_utf8(bytes.data(), bytes.size()))
        json.member(name, bytes);
    else
        json.member(fmt::format("{}_base64", name), std::string_view(to_base64(bytes)));
}

void write_outcome(JsonWriter& json, const Outcome& outcome) {
    json.begin_object().member("status", outcome.status).member("kept", outcome.kept);
    if (outcome.kept) write_bytes(json, "body", outcome.body);
    json.end_object();
}

void write_time(JsonWriter& json, std::string_view name, const std::optional<TimePoint>& at) {
    if (at && *at != never)
        json.member(name, to_text(*at));
    else
        json.name(name).null();
}

void write_checkpoint(JsonWriter& json, const Checkpoint& checkpoint) {
    json.begin_object().member("name", checkpoint.name);
    write_bytes(json, "value", checkpoint.value);
    json.end_object();
}

void write_checkpoints(JsonWriter& json, const std::vector<Checkpoint>& checkpoints) {
    json.name("checkpoints").begin_array();
    for (const Checkpoint& each : checkpoints) write_checkpoint(json, each);
    json.end_array();
}

/// Ends the object that was begun with the answer's name.
Said well(int status, std::string_view word, JsonWriter& json) {
    json.end_object();
    return {.status = status, .json = json.text() + "\n", .word = word};
}

JsonWriter begin(std::string_view word) {
    JsonWriter json;
    json.begin_object().member("answer", word);
    return json;
}

/// A problem that is an answer of the ledger; `members` are more of its own.
Said conflict(Problem problem, std::string_view word, const Asked& asked, http::ProblemDetails details = {},
              std::string_view members = {}) {
    const std::string more = fmt::format("\"answer\":{}{}{}", json_text(word), members.empty() ? "" : ",", members);
    details.key = asked.key;
    details.more = more;
    Said made = said(problem, details);
    made.word = word;
    return made;
}

std::string member_of(std::string_view name, std::string_view value) {
    return fmt::format("{}:{}", json_text(name), json_text(value));
}

Said claimed(const Claimed& answer, Duration lease) {
    JsonWriter json = begin("claimed");
    json.member("token", text_of(answer.token)).member("attempt", to_hex(answer.attempt.bytes));
    json.member("doubt", answer.doubt).member("tries", answer.tries).member("lease", to_text(lease));
    write_time(json, "lease_until", answer.lease_until);
    write_checkpoints(json, answer.checkpoints);
    return well(201, "claimed", json);
}

Said replayed(const Replay& answer) {
    JsonWriter json = begin("replay");
    json.name("outcome");
    write_outcome(json, answer.outcome);
    write_time(json, "settled_at", answer.settled_at);
    return well(200, "replay", json);
}

Said done(const Ok& answer) {
    JsonWriter json = begin("ok");
    json.member("state", answer.state ? name(*answer.state) : std::string_view("absent"));
    const bool open = answer.state && *answer.state != State::settled;
    write_time(json, "lease_until", open ? std::optional(answer.lease_until) : std::nullopt);
    if (answer.checkpoint) {
        json.name("checkpoint");
        write_checkpoint(json, *answer.checkpoint);
    }
    return well(200, "ok", json);
}

Said busy(const Busy& answer, const Asked& asked) {
    const auto after = std::chrono::ceil<std::chrono::milliseconds>(answer.retry_after);
    return conflict(Problem::in_progress, "busy", asked,
                    {.detail = "somebody holds it under a live lease", .retry_after = after},
                    member_of("retry_after", fmt::format("{}ms", after.count())));
}

Said settled(const Settled& answer, const Asked& asked) {
    JsonWriter json;
    write_outcome(json, answer.outcome);
    return conflict(Problem::already_settled, "settled", asked, {.detail = "its outcome does not change any more"},
                    fmt::format("\"outcome\":{}", json.text()));
}

}  // namespace

Said said(Problem problem, const http::ProblemDetails& details) {
    http::ProblemAnswer made = http::answer(problem, details);
    return {.status = made.status,
            .problem = true,
            .json = std::move(made.body),
            .retry_after = std::move(made.retry_after),
            .word = http::kind(problem).slug};
}

Said said(const Answer& answer, const Asked& asked, Duration lease) {
    return std::visit(
        match{[&](const Claimed& a) { return claimed(a, lease); }, [&](const Replay& a) { return replayed(a); },
              [&](const Busy& a) { return busy(a, asked); },
              [&](const Mismatch&) {
                  return conflict(Problem::key_reused, "mismatch", asked,
                                  {.detail = "a key is for one request; mint another for another"});
              },
              [&](const Unknown& a) {
                  return conflict(
                      Problem::outcome_unknown, "unknown", asked,
                      {.detail = "its holder vanished, and its policy does not let it be repeated: find out, "
                                 "then resolve it"},
                      member_of("since", to_text(a.since)));
              },
              [&](const Expired&) {
                  return conflict(Problem::key_expired, "expired", asked,
                                  {.detail = "it may have been done and forgotten since"});
              },
              [&](const Ok& a) { return done(a); }, [&](const Settled& a) { return settled(a, asked); },
              [&](const Fenced&) {
                  return conflict(Problem::fenced, "fenced", asked,
                                  {.detail = "the token and attempt are not those of its holder"});
              },
              [&](const TooEarly& a) {
                  return conflict(Problem::too_early, "too_early", asked,
                                  {.detail = "its lease and its effect_deadline have to pass first"},
                                  member_of("not_before", to_text(a.not_before)));
              },
              [&](const Late&) {
                  return said(Failure{Code::unavailable, "claim: it reached the store too late; nothing was claimed"},
                              asked);
              },
              [&](const Withheld&) { return conflict(Problem::withheld, "withheld", asked); }},
        answer);
}

Said said(const Failure& failure, const Asked& asked) {
    const auto problem = [&](Problem which, int status, bool retryable, std::string_view detail) {
        return said(which, {.detail = detail, .key = asked.key, .status = status, .retryable = retryable});
    };
    switch (failure.code) {
        case Code::unavailable:
        case Code::contended: return problem(Problem::store_unavailable, 503, true, "nothing was done; try again");
        case Code::indeterminate:
            if (std::holds_alternative<Claim>(asked.command) && !asked.attempt_given)
                return problem(Problem::store_unavailable, 503, true,
                               "the store did not answer in time: a grant that is nobody's may exist until its lease "
                               "ends; only a claim that names its attempt finds it again");
            return problem(Problem::store_unavailable, 503, true,
                           "the store did not answer in time: it may have been done; repeat the very same command");
        case Code::exhausted: return problem(Problem::overloaded, 503, true, "nothing was done; try again later");
        case Code::corrupt:
            return problem(Problem::store_unavailable, 500, false,
                           "what is stored of it cannot be trusted; the operator has to look");
        case Code::invalid: return problem(Problem::request_malformed, 400, false, failure.message);
    }
    return problem(Problem::store_unavailable, 500, false, "");
}

Said said(const Refused& refused) {
    return said(refused.role ? Problem::role_missing : Problem::request_malformed, {.detail = refused.text()});
}

Said found(const Record& record, const Operation& operation, TimePoint now) {
    const bool is_settled = record.state == State::settled;
    JsonWriter json = begin("found");
    json.member("scope", operation.scope.name()).member("generation", operation.scope.generation());
    json.member("key", operation.key.text()).member("state", name(record.state));
    json.member("lease_over", lease_is_over(record, now)).member("doubt", record.doubt);
    json.member("token", text_of(record.token)).member("tries", record.tries);
    json.member("fingerprint", to_hex(record.fingerprint.bytes)).member("correlation", record.correlation);
    write_time(json, "created", created_at(record));
    write_time(json, "lease_until", is_settled ? std::nullopt : std::optional(record.lease_until));
    write_time(json, "unknown_since", record.unknown_since);
    write_time(json, "resolvable_from", is_settled ? std::nullopt : std::optional(resolvable_from(record)));
    write_time(json, "settled_at", record.settled_at);
    write_time(json, "expires_at", expires_at(record));
    json.name("outcome");
    if (is_settled)
        write_outcome(json, record.outcome);
    else
        json.null();
    json.name("policy").begin_object().member("on_unknown", name(record.policy.on_unknown));
    json.member("dedup_window", to_text(record.policy.dedup_window)).member("lease", to_text(record.policy.lease));
    json.member("effect_deadline", to_text(record.policy.effect_deadline));
    json.member("retention", lasting(record.policy.retention.identity));
    json.member("response_retention", lasting(record.policy.retention.response)).end_object();
    json.member("resolved_by", record.resolved_by).member("resolved_why", record.resolved_why);
    write_checkpoints(json, record.checkpoints);
    json.name("history").begin_array();
    for (const HistoryEntry& each : record.history) {
        json.begin_object().member("at", to_text(each.at)).member("what", name(each.what));
        json.member("token", text_of(each.token)).end_object();
    }
    json.end_array();
    return well(200, "found", json);
}

}  // namespace semel::api
