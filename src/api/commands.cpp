#include "api/commands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <set>

#include "api/json_fields.hpp"
#include "base/base64.hpp"
#include "base/bytes.hpp"
#include "http/query.hpp"
#include "ledger/canonical_json.hpp"
#include "semel/committer.hpp"
#include "semel/fingerprint.hpp"
#include "semel/keys.hpp"

namespace semel::api {
namespace {

constexpr std::string_view attempt_right = "32 hex digits or a UUID, random, anew for each claim";
constexpr std::int64_t generation_max = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t status_max = std::numeric_limits<std::int32_t>::max();

/// A command while it is being read.
struct Reading {
    const JsonDocument& document;
    JsonFields& in;
    const Caller& caller;
};

// ---- values ------------------------------------------------------------------------------------------------------

std::optional<std::array<unsigned char, 16>> sixteen_bytes(std::string_view hex) {
    const auto bytes = from_hex(hex);
    std::array<unsigned char, 16> out{};
    if (!bytes || bytes->size() != out.size()) return std::nullopt;
    std::ranges::copy(*bytes, out.begin());
    return out;
}

std::optional<Attempt> read_attempt(JsonFields& in) {
    auto text = in.text("attempt", attempt_right);
    if (!text) return std::nullopt;
    const bool uuid =
        text->size() == 36 && (*text)[8] == '-' && (*text)[13] == '-' && (*text)[18] == '-' && (*text)[23] == '-';
    if (uuid) std::erase(*text, '-');
    if (const auto bytes = sixteen_bytes(*text); bytes && *bytes != Attempt{}.bytes) return Attempt{*bytes};
    in.refuse("attempt", fmt::format("write {}", attempt_right));
    return std::nullopt;
}

std::optional<Token> read_token(JsonFields& in) {
    in.require("token", "the one that claim or find told");
    const auto text = in.text("token", "the one that claim or find told");
    if (!text) return std::nullopt;
    Token token;
    const char* const end = text->data() + text->size();
    const auto [rest, error] = std::from_chars(text->data(), end, token.value);
    if (error == std::errc() && rest == end && token.value != 0 && text->front() != '0') return token;
    in.refuse("token", "write the one that claim or find told: digits");
    return std::nullopt;
}

/// `NAME`, a text, or `NAME_base64`. Nothing: neither, or a wrong one, which was told.
std::optional<std::string> read_bytes(JsonFields& in, const std::string& name) {
    const std::string encoded = name + "_base64";
    auto text = in.text(name, "a text");
    const auto base64 = in.text(encoded, "base64");
    if (in.has(name) && in.has(encoded)) in.refuse(name, fmt::format("write it or {}, not both", encoded));
    if (!base64) return text;
    auto bytes = from_base64(*base64);
    if (!bytes) in.refuse(encoded, "write base64 (RFC 4648), padded");
    return bytes;
}

std::optional<Outcome> read_outcome(JsonFields& in) {
    auto written = in.object("outcome");
    if (!written) return std::nullopt;
    Outcome outcome;
    written->require("status", "what the effect came to, as a number: 201");
    outcome.status = static_cast<std::int32_t>(written->whole("status", 0, status_max).value_or(0));
    outcome.body = read_bytes(*written, "body").value_or("");
    outcome.kept = written->truth("kept").value_or(true);
    if (!outcome.kept && (written->has("body") || written->has("body_base64")))
        written->refuse("kept", "false says that there is no body; leave one of them out");
    written->end();
    return outcome;
}

// ---- the operation ------------------------------------------------------------------------------------------------

std::optional<Operation> operation_of(const Caller& caller, std::optional<std::string> scope, std::uint32_t generation,
                                      std::optional<std::string> key, Findings& findings) {
    std::optional<Scope> made;
    if (scope) {
        if (auto read = Scope::make(caller.tenant, std::move(*scope), generation))
            made = std::move(*read);
        else
            findings.add("scope", read.failure().message);
    }
    if (!key) return std::nullopt;
    auto read = Key::parse(std::move(*key));
    if (!read) findings.add("key", read.failure().message);
    if (!made || !read) return std::nullopt;
    return Operation{std::move(*made), std::move(*read)};
}

std::optional<Operation> read_operation(Reading& reading) {
    JsonFields& in = reading.in;
    in.require("scope", "what kind of work it is, as in charges");
    in.require("key", "which one it is: the same on every retry");
    auto scope = in.text("scope", "what kind of work it is");
    auto key = in.text("key", "which one it is");
    const auto generation = in.whole("generation", 0, generation_max).value_or(0);
    Findings own;
    auto made =
        operation_of(reading.caller, std::move(scope), static_cast<std::uint32_t>(generation), std::move(key), own);
    for (const std::string& problem : own.take()) {
        const auto colon = problem.find(": ");
        in.refuse(problem.substr(0, colon), problem.substr(colon + 2));
    }
    return made;
}

// ---- claim ---------------------------------------------------------------------------------------------------------

std::optional<Fingerprint> read_fingerprint(Reading& reading) {
    JsonFields& in = reading.in;
    const auto request = in.any("request");
    const auto text = in.text("fingerprint", "32 hex digits");
    if (in.has("request") == in.has("fingerprint")) {
        in.refuse("request",
                  "write what is asked for, as any JSON value; or its fingerprint, 32 hex digits; not both: "
                  "another request under the same key is told by it");
        return std::nullopt;
    }
    if (request) {
        const auto canonical = canonical_json(reading.document, *request);
        if (canonical) return fingerprint_of_bytes(*canonical);
        in.refuse("request", "it has a number out of all proportion");
        return std::nullopt;
    }
    if (!text) return std::nullopt;
    if (const auto bytes = sixteen_bytes(*text)) return Fingerprint{*bytes, 1};
    in.refuse("fingerprint", "write 32 hex digits");
    return std::nullopt;
}

/// Nothing lasts for ever unless it is said so.
void read_lasting(JsonFields& in, std::string_view name, std::optional<Duration>& value) {
    const auto text = in.text(name, "a duration, as in 24h, or permanent");
    if (!text) return;
    if (*text == "permanent")
        value.reset();
    else if (const auto duration = in.duration(name))
        value = *duration;
}

void read_on_unknown(JsonFields& in, Policy& policy) {
    const auto text = in.text("on_unknown", "refuse, retry or resume");
    if (!text) return;
    for (const OnUnknown each : {OnUnknown::refuse, OnUnknown::retry, OnUnknown::resume}) {
        if (name(each) != *text) continue;
        policy.on_unknown = each;
        return;
    }
    in.refuse("on_unknown", *text == "joined"
                                ? "joined is for a service that settles in its own transaction (docs/gateway.md); here "
                                  "write refuse, retry or resume"
                                : "write refuse, retry or resume");
}

/// Whether an absent key is refused when its record may have been swept (DESIGN: a finite retention must not silently turn
/// a late retry into a new effect).
void check_retention(JsonFields& in, Claim& claim, bool natural) {
    if (!claim.policy.retention.identity) return;
    claim.key_time = claim.operation.key.time();
    if (claim.key_time || natural) return;
    in.refuse(
        "policy.retention",
        "a key that is forgotten could run again on a late retry: use a UUIDv7 as key, which tells its own age; or "
        "write natural: true if a constraint of your own outlives the ledger; or leave it permanent");
}

std::optional<Asked> read_claim(Reading& reading) {
    JsonFields& in = reading.in;
    auto operation = read_operation(reading);
    const auto fingerprint = read_fingerprint(reading);
    const auto attempt = read_attempt(in);
    auto correlation = in.text("correlation", "an id that is passed on at every hop");
    Policy policy;
    bool natural = false;
    if (auto written = in.object("policy")) {
        read_on_unknown(*written, policy);
        const auto fill = [&](std::string_view name, Duration& value) {
            if (const auto read = written->duration(name)) value = *read;
        };
        fill("dedup_window", policy.dedup_window);
        fill("lease", policy.lease);
        fill("effect_deadline", policy.effect_deadline);
        read_lasting(*written, "retention", policy.retention.identity);
        read_lasting(*written, "response_retention", policy.retention.response);
        natural = written->truth("natural").value_or(false);
        if (written->has("dedup_window") && policy.on_unknown != OnUnknown::retry)
            written->refuse("dedup_window", "it belongs to on_unknown: retry");
        written->end();
    }
    if (!operation || !fingerprint) return std::nullopt;
    Claim claim{.operation = std::move(*operation), .fingerprint = *fingerprint, .policy = policy};
    claim.correlation = correlation.value_or("");
    claim.attempt = attempt ? *attempt : mint_attempt();
    check_retention(in, claim, natural);
    Asked asked{.command = Claim(claim), .key = claim.operation.key.text()};
    asked.attempt_given = attempt.has_value();
    asked.lease = policy.lease;
    return asked;
}

// ---- the holder's ---------------------------------------------------------------------------------------------------

struct Held {
    Holder holder;
    std::string key;
};

std::optional<Held> read_holder(Reading& reading) {
    const auto operation = read_operation(reading);
    const auto token = read_token(reading.in);
    reading.in.require("attempt", "the one that claim told");
    const auto attempt = read_attempt(reading.in);
    if (!operation || !token || !attempt) return std::nullopt;
    return Held{{operation->id(), *token, *attempt}, operation->key.text()};
}

template <class Simple>
std::optional<Asked> read_simple(Reading& reading) {
    auto held = read_holder(reading);
    if (!held) return std::nullopt;
    return Asked{.command = Simple{held->holder}, .key = std::move(held->key)};
}

std::optional<Asked> read_checkpoint(Reading& reading) {
    auto held = read_holder(reading);
    JsonFields& in = reading.in;
    in.require("name", "the checkpoint's name");
    auto name = in.text("name", "the checkpoint's name");
    auto value = read_bytes(in, "value");
    if (!in.has("value") && !in.has("value_base64")) in.refuse("value", "missing; write what to remember, as a text");
    if (!held || !name || !value) return std::nullopt;
    return Asked{.command = SaveCheckpoint{held->holder, {std::move(*name), std::move(*value)}},
                 .key = std::move(held->key)};
}

std::optional<Asked> read_settle(Reading& reading) {
    auto held = read_holder(reading);
    JsonFields& in = reading.in;
    in.require("outcome", "what the effect came to, as in {\"status\": 201, \"body\": \"…\"}");
    auto outcome = read_outcome(in);
    const bool conclusive = in.truth("conclusive").value_or(true);
    if (!held || !outcome) return std::nullopt;
    return Asked{.command = Settle{held->holder, std::move(*outcome), conclusive}, .key = std::move(held->key)};
}

// ---- a person's -----------------------------------------------------------------------------------------------------

std::optional<Asked> read_resolve(Reading& reading) {
    auto operation = read_operation(reading);
    JsonFields& in = reading.in;
    const auto token = read_token(in);
    in.require("verdict", "happened, with its outcome, or did_not_happen");
    in.require("why", "how you know");
    const auto verdict = in.text("verdict", "happened or did_not_happen");
    auto why = in.text("why", "how you know");
    auto outcome = read_outcome(in);
    if (verdict && *verdict != "happened" && *verdict != "did_not_happen")
        in.refuse("verdict", "write happened or did_not_happen");
    if (verdict && *verdict == "happened") in.require("outcome", "what is answered from now on");
    if (verdict && *verdict == "did_not_happen" && in.has("outcome"))
        in.refuse("outcome", "what did not happen has none; leave it out");
    if (!operation || !token || !verdict || !why) return std::nullopt;
    Resolve resolve{operation->id(), *token, std::move(outcome), reading.caller.name, std::move(*why)};
    Asked asked{.command = std::move(resolve), .key = operation->key.text()};
    asked.resolved = std::move(operation);
    return asked;
}

// ---- all of them -----------------------------------------------------------------------------------------------------

struct Kind {
    std::string_view name;
    bool Roles::*role;
    std::optional<Asked> (*read)(Reading&);
};

constexpr std::array<Kind, 7> kinds{{{"claim", &Roles::hold, read_claim},
                                     {"renew", &Roles::hold, read_simple<Renew>},
                                     {"checkpoint", &Roles::hold, read_checkpoint},
                                     {"settle", &Roles::hold, read_settle},
                                     {"release", &Roles::hold, read_simple<Release>},
                                     {"abandon", &Roles::hold, read_simple<Abandon>},
                                     {"resolve", &Roles::resolve, read_resolve}}};

const Kind* kind_of(std::string_view name) {
    const auto found = std::ranges::find(kinds, name, &Kind::name);
    return found == kinds.end() ? nullptr : &*found;
}

std::string right_of(const Kind& kind) {
    return fmt::format("{} needs a token with the role {}", kind.name, kind.role == &Roles::hold ? "hold" : "resolve");
}

/// What the ledger itself refuses is told in the same way.
std::optional<Asked> checked(std::optional<Asked> asked, JsonFields& in, std::string_view place, Findings& findings) {
    in.end();
    if (!asked) return asked;
    if (const auto valid = validate(asked->command); !valid) {
        findings.add(place, valid.failure().message);
        return std::nullopt;
    }
    return asked;
}

constexpr std::string_view not_json =
    "the body is no JSON that can be read in one way only: RFC 8259 in UTF-8, no name twice, nested at most 128 deep";

}  // namespace

std::string Refused::text() const { return fmt::format("{}", fmt::join(problems, "; ")); }

bool is_command(std::string_view name) { return kind_of(name) != nullptr; }

std::variant<Asked, Refused> read_command(std::string_view name, std::string_view body, const Caller& caller) {
    const Kind* const kind = kind_of(name);
    if (kind == nullptr) return Refused{{"no such command"}};
    if (!(caller.roles.*kind->role)) return Refused{{right_of(*kind)}, true};
    const auto document = JsonDocument::parse(body);
    if (!document) return Refused{{std::string(not_json)}};
    Findings findings;
    JsonFields in(*document, 0, "", findings);
    Reading reading{*document, in, caller};
    auto asked = in.good() ? checked(kind->read(reading), in, "", findings) : std::nullopt;
    if (!asked || !findings.empty()) return Refused{findings.take()};
    return std::move(*asked);
}

namespace {

using Index = JsonDocument::Index;

/// The commands of one group, as far as they can be read.
class BatchReader {
public:
    BatchReader(const JsonDocument& document, const Caller& caller) : document_(document), caller_(caller) {}

    Groups read() {
        Groups groups;
        JsonFields in(document_, 0, "", findings);
        in.require("groups", "a list of groups, each a list of commands");
        const auto list = in.any("groups");
        in.end();
        if (!list) return groups;
        const auto& node = document_.node(*list);
        if (!is_list(*list, 1, groups_max, "groups")) return groups;
        std::size_t at = 0;
        for (Index each = *list + 1; each < node.end; each = document_.node(each).end)
            groups.push_back(group(each, fmt::format("groups[{}]", at++)));
        return groups;
    }

    Findings findings;
    std::string role_missing;

private:
    bool is_list(Index index, std::size_t least, std::size_t most, std::string_view place) {
        const auto& node = document_.node(index);
        if (node.kind == JsonDocument::Kind::array && node.count >= least && node.count <= most) return true;
        findings.add(place, fmt::format("write a list with {} to {} elements", least, most));
        return false;
    }

    std::vector<Asked> group(Index index, const std::string& place) {
        std::vector<Asked> commands;
        if (!is_list(index, 1, group_commands_max, place)) return commands;
        std::set<OperationId> ids;
        std::size_t at = 0;
        for (Index each = index + 1; each < document_.node(index).end; each = document_.node(each).end) {
            auto asked = command(each, fmt::format("{}[{}]", place, at++));
            if (!asked) continue;
            if (!ids.insert(id_of(asked->command)).second)
                findings.add(place,
                             "two of its commands are about the same operation; put them into groups of their own");
            commands.push_back(std::move(*asked));
        }
        // The one kind of grant is released when it cannot be delivered, the other is not, and a group is one.
        const auto claims = [&](bool named) {
            return std::ranges::any_of(commands, [named](const Asked& each) {
                return std::holds_alternative<Claim>(each.command) && each.attempt_given == named;
            });
        };
        if (claims(true) && claims(false))
            findings.add(place, "some of its claims name their attempt and some do not; name all of them, or none");
        return commands;
    }

    std::optional<Asked> command(Index index, const std::string& place) {
        JsonFields in(document_, index, place, findings);
        if (!in.good()) return std::nullopt;
        in.require("command", "claim, renew, checkpoint, settle, release, abandon or resolve");
        const auto name = in.text("command", "the name of a command");
        if (!name) return std::nullopt;
        const Kind* const kind = kind_of(*name);
        if (kind == nullptr) {
            in.refuse("command", "write claim, renew, checkpoint, settle, release, abandon or resolve");
            return std::nullopt;
        }
        if (!(caller_.roles.*kind->role)) {
            role_missing = right_of(*kind);
            return std::nullopt;
        }
        Reading reading{document_, in, caller_};
        return checked(kind->read(reading), in, place, findings);
    }

    const JsonDocument& document_;
    const Caller& caller_;
};

}  // namespace

std::variant<Groups, Refused> read_batch(std::string_view body, const Caller& caller) {
    const auto document = JsonDocument::parse(body);
    if (!document) return Refused{{std::string(not_json)}};
    BatchReader reader(*document, caller);
    Groups groups = reader.read();
    if (!reader.role_missing.empty()) return Refused{{reader.role_missing}, true};
    if (!reader.findings.empty()) return Refused{reader.findings.take()};
    return groups;
}

std::variant<Operation, Refused> read_find(std::string_view query, const Caller& caller) {
    if (!caller.roles.hold && !caller.roles.read && !caller.roles.resolve)
        return Refused{{"find needs a token with the role read, hold or resolve"}, true};
    const auto parameters = http::Query::parse(query);
    if (!parameters) return Refused{{"the query has a parameter twice, or a broken percent-encoding"}};
    Findings findings;
    if (const auto unknown = parameters->unknown({"scope", "key", "generation"}))
        findings.add("", "parameters: scope, key and generation");
    const auto scope = parameters->find("scope");
    const auto key = parameters->find("key");
    if (!scope) findings.add("scope", "missing");
    if (!key) findings.add("key", "missing");
    std::uint32_t generation = 0;
    if (const auto text = parameters->find("generation")) {
        const char* const end = text->data() + text->size();
        const auto [rest, error] = std::from_chars(text->data(), end, generation);
        if (error != std::errc() || rest != end) findings.add("generation", "write a whole number");
    }
    auto operation = operation_of(caller, scope, generation, key, findings);
    if (!operation || !findings.empty()) return Refused{findings.take()};
    return std::move(*operation);
}

}  // namespace semel::api
