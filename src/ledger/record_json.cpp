#include "ledger/record_json.hpp"

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "base/duration.hpp"

namespace semel {

std::string fingerprint_text(const Fingerprint& fingerprint) {
    return fmt::format("v{}:{}", fingerprint.version, to_hex(fingerprint.bytes));
}

bool lease_is_over(const Record& record, TimePoint now) {
    return record.state == State::running && record.lease_until <= now;
}

TimePoint resolvable_from(const Record& record) { return later(record.lease_until, record.policy.effect_deadline); }

std::optional<TimePoint> created_at(const Record& record) {
    if (record.created == TimePoint{}) return std::nullopt;
    return record.created;
}

std::string lasting(const std::optional<Duration>& duration) { return duration ? to_text(*duration) : "permanent"; }

void write_record(JsonWriter& json, const Record& record, TimePoint now) {
    json.begin_object();
    write_record_members(json, record, now);
    json.end_object();
}

void write_record_members(JsonWriter& json, const Record& record, TimePoint now) {
    const auto time = [&](std::string_view name, const std::optional<TimePoint>& at) {
        if (at && *at != never)
            json.member(name, to_text(*at));
        else
            json.name(name).null();
    };
    const bool settled = record.state == State::settled;
    json.member("id", to_hex(record.id.bytes));
    if (record.operation) {
        const Scope& scope = record.operation->scope;
        json.member("scope", scope.text()).member("tenant", scope.tenant()).member("name", scope.name());
        json.member("generation", scope.generation()).member("key", record.operation->key.text());
    } else {
        for (const char* name : {"scope", "tenant", "name", "generation", "key"}) json.name(name).null();
    }
    json.member("state", name(record.state))
        .member("lease_over", lease_is_over(record, now))
        .member("doubt", record.doubt);
    json.member("token", record.token.value).member("tries", record.tries);
    json.member("fingerprint", fingerprint_text(record.fingerprint)).member("correlation", record.correlation);
    time("key_time", record.key_time);
    time("created", created_at(record));
    time("lease_until", settled ? std::nullopt : std::optional(record.lease_until));
    time("unknown_since", record.unknown_since);
    time("resolvable_from", settled ? std::nullopt : std::optional(resolvable_from(record)));
    time("settled_at", record.settled_at);
    time("expires_at", expires_at(record));
    json.name("outcome");
    if (settled) {
        json.begin_object().member("status", record.outcome.status).member("kept", record.outcome.kept);
        json.member("filled", !record.unfilled).member("body_bytes", record.outcome.body.size()).end_object();
    } else {
        json.null();
    }
    json.name("policy").begin_object().member("on_unknown", name(record.policy.on_unknown));
    json.member("dedup_window", to_text(record.policy.dedup_window)).member("lease", to_text(record.policy.lease));
    json.member("effect_deadline", to_text(record.policy.effect_deadline));
    json.member("retention", lasting(record.policy.retention.identity));
    json.member("response_retention", lasting(record.policy.retention.response)).end_object();
    json.member("resolved_by", record.resolved_by).member("resolved_why", record.resolved_why);
    json.member("request_bytes", record.request.size());
    json.name("checkpoints").begin_array();
    for (const Checkpoint& checkpoint : record.checkpoints)
        json.begin_object().member("name", checkpoint.name).member("bytes", checkpoint.value.size()).end_object();
    json.end_array().name("history").begin_array();
    for (const HistoryEntry& event : record.history) {
        json.begin_object().member("at", to_text(event.at)).member("what", name(event.what));
        json.member("token", event.token.value).end_object();
    }
    json.end_array();
}

}  // namespace semel
