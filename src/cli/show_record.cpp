#include "cli/show_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "cli/table.hpp"
#include "ledger/record_json.hpp"

namespace semel::cli {
namespace {

std::string time_and_age(TimePoint at, TimePoint now) {
    if (at == never) return "never";
    const std::string age = age_text(now - at);
    return fmt::format("{} ({}{})", to_text(at), age, at > now ? "" : " ago");
}

std::string state_text(const Record& record, TimePoint now) {
    if (lease_is_over(record, now)) return "running, lease over";
    return std::string(name(record.state));
}

std::string policy_text(const Policy& policy) {
    std::string text = fmt::format("on unknown: {}", name(policy.on_unknown));
    if (policy.on_unknown == OnUnknown::retry) text += fmt::format(" within {}", to_text(policy.dedup_window));
    return fmt::format("{}; lease {}, effect deadline {}; retention {}, of the answer {}", text, to_text(policy.lease),
                       to_text(policy.effect_deadline), lasting(policy.retention.identity),
                       lasting(policy.retention.response));
}

std::string outcome_text(const Record& record) {
    if (record.unfilled) return "done; its transaction gave no outcome";
    if (!record.outcome.kept) return fmt::format("status {}; the answer is not kept", record.outcome.status);
    return fmt::format("status {}, {} bytes (--body writes them)", record.outcome.status, record.outcome.body.size());
}

/// What the next claim will do about a vanished holder, if its policy lets it do anything.
std::string next_claim_text(const Record& record, TimePoint now) {
    switch (record.policy.on_unknown) {
        case OnUnknown::refuse: return "the next claim is answered Unknown: a person has to decide";
        case OnUnknown::retry: {
            const TimePoint until = later(record.created, record.policy.dedup_window);
            if (now < until)
                return fmt::format("the next claim repeats the effect with the same key, until {}", to_text(until));
            return fmt::format("the other side forgot our key at {}: a person has to decide", to_text(until));
        }
        case OnUnknown::resume: return "the next claim resumes it at its first unfinished step";
        case OnUnknown::joined:
            return "the next claim runs it again; a late first holder is fenced by its own transaction";
    }
    return {};
}

std::vector<std::string> advice(const Record& record, TimePoint now, const std::string& store) {
    if (record.state == State::settled) return {};
    if (record.state == State::running && !lease_is_over(record, now)) return {};
    const std::string named = record.operation ? fmt::format("{} {}", shell_word(record.operation->scope.text()),
                                                             shell_word(record.operation->key.text()))
                                               : to_hex(record.id.bytes);
    const std::string command =
        fmt::format("semel ops resolve --store {} {} --token {}", shell_word(store), named, record.token.value);
    std::vector<std::string> lines{next_claim_text(record, now)};
    const TimePoint from = resolvable_from(record);
    lines.push_back(fmt::format("find out at the other side whether it happened, then say so{}:",
                                from > now ? fmt::format(", from {} on", to_text(from)) : ""));
    lines.push_back(command + " --happened STATUS --who YOU --why REASON");
    lines.push_back(command + " --did-not-happen --who YOU --why REASON");
    return lines;
}

}  // namespace

std::string age_text(Duration since) {
    struct Unit {
        std::int64_t seconds;
        char name;
    };
    constexpr std::array<Unit, 4> units{{{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}, {1, 's'}}};
    const bool ahead = since < Duration{0};
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(ahead ? -since : since).count();
    std::string text = fmt::format("{}s", seconds);
    for (std::size_t i = 0; i + 1 < units.size(); ++i) {
        if (seconds < units[i].seconds) continue;
        const std::int64_t rest = seconds % units[i].seconds / units[i + 1].seconds;
        text = fmt::format("{}{}{:02}{}", seconds / units[i].seconds, units[i].name, rest, units[i + 1].name);
        break;
    }
    return ahead ? "in " + text : text;
}

std::string shell_word(const std::string& text) {
    const auto plain = [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               std::string_view("_-./:@%+=,").find(c) != std::string_view::npos;
    };
    if (!text.empty() && std::ranges::all_of(text, plain)) return text;
    std::string word = "'";
    for (const char c : text) {
        if (c == '\'')
            word += "'\\''";
        else
            word += c;
    }
    return word + '\'';
}

std::string record_table(const std::vector<Record>& records, TimePoint now) {
    using enum Table::Align;
    Table table({{"STATE"},
                 {"AGE", right},
                 {"CREATED"},
                 {"TRIES", right},
                 {"STATUS", right},
                 {"SCOPE"},
                 {"KEY"},
                 {"CORRELATION"}});
    for (const Record& record : records) {
        const auto created = created_at(record);
        const TimePoint born = created.value_or(record.settled_at.value_or(now));
        // What was swept down to a tombstone is still found by its id.
        table.add({state_text(record, now), age_text(now - born), created ? to_text(*created) : "-",
                   std::to_string(record.tries),
                   record.state == State::settled ? std::to_string(record.outcome.status) : "-",
                   record.operation ? record.operation->scope.text() : "-",
                   record.operation ? record.operation->key.text() : to_hex(record.id.bytes),
                   record.correlation.empty() ? "-" : record.correlation});
    }
    return table.text();
}

std::string record_detail(const Record& record, TimePoint now, const std::string& store) {
    std::string text;
    const auto line = [&](std::string_view label, std::string_view value) {
        text += fmt::format("{:<13}{}\n", label, printable(value));
    };
    line("operation", record.operation ? record.operation->text() : "scope and key were dropped with the answer");
    line("id", to_hex(record.id.bytes));
    line("state", record.unknown_since
                      ? fmt::format("{} since {}", name(record.state), time_and_age(*record.unknown_since, now))
                      : state_text(record, now));
    if (record.doubt) line("doubt", "an earlier holder may have begun: only a conclusive answer settles it");
    line("token", std::to_string(record.token.value));
    line("fingerprint", fingerprint_text(record.fingerprint));
    if (!record.correlation.empty()) line("correlation", record.correlation);
    if (record.key_time) line("key time", time_and_age(*record.key_time, now));
    if (const auto created = created_at(record)) line("created", time_and_age(*created, now));
    line("tries", std::to_string(record.tries));
    if (record.state != State::settled) line("lease until", time_and_age(record.lease_until, now));
    line("policy", policy_text(record.policy));
    if (!record.request.empty())
        line("request", fmt::format("kept, {} bytes: who takes it over sends it again", record.request.size()));
    if (record.state == State::settled) {
        line("outcome", outcome_text(record));
        line("settled", time_and_age(*record.settled_at, now));
        line("expires", time_and_age(expires_at(record), now));
    }
    if (!record.resolved_by.empty())
        line("resolved by", fmt::format("{}: {}", record.resolved_by, record.resolved_why));
    std::string_view label = "checkpoints";
    for (const Checkpoint& checkpoint : record.checkpoints) {
        line(label, fmt::format("{}, {} bytes", checkpoint.name, checkpoint.value.size()));
        label = "";
    }
    label = "history";
    for (const HistoryEntry& event : record.history) {
        line(label, fmt::format("{}  {}, token {}", to_text(event.at), name(event.what), event.token.value));
        label = "";
    }
    label = "what to do";
    for (const std::string& each : advice(record, now, store)) {
        line(label, each);
        label = "";
    }
    return text;
}

}  // namespace semel::cli
