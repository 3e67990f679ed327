#include "consumers/group.hpp"

#include <fmt/format.h>

#include "consumers/in_transaction.hpp"

namespace semel {
namespace {

std::int64_t integer(const SqlValue& value) {
    const auto* number = std::get_if<std::int64_t>(&value);
    return number == nullptr ? 0 : *number;
}

}  // namespace

Status make_group(Inbox& inbox, const std::string& consumer) {
    const SqlValue values[] = {consumer};
    auto made = inbox.ask("insert into semel.consumer (name) values ($1) on conflict (name) do nothing", values);
    if (!made) return made.failure();
    return Done{};
}

Result<GroupState> begin_for_group(Inbox& inbox, const std::string& consumer) {
    constexpr std::string_view sql =
        "select generation, case when exists (select 1 from semel.shelf where consumer = $1 and held = 0) then 1 "
        "else 0 end from semel.consumer where name = $1 for share";
    const SqlValue values[] = {consumer};
    auto begun = inbox.begin_and_ask(sql, values);
    if (!begun) return begun.failure();
    if (begun->rows.empty()) {
        auto made = make_group(inbox, consumer);
        auto rows = made ? inbox.ask(sql, values) : Result<std::vector<SqlRow>>(made.failure());
        if (!rows || rows->empty()) {
            inbox.roll_back();
            if (!rows) return rows.failure();
            return Failure{Code::contended, fmt::format("consumer {}: its row came and went", consumer)};
        }
        begun->rows = std::move(*rows);
    }
    const SqlRow& row = begun->rows[0];
    return GroupState{begun->now, static_cast<std::uint32_t>(integer(row[0])), integer(row[1]) != 0};
}

Result<std::uint32_t> next_generation(Inbox& inbox, const std::string& consumer) {
    if (auto made = make_group(inbox, consumer); !made) return made.failure();
    const SqlValue values[] = {consumer};
    auto rows = inbox.ask(
        "update semel.consumer set generation_last = generation_last + 1 where name = $1 returning generation_last",
        values);
    if (!rows) return rows.failure();
    return static_cast<std::uint32_t>(integer((*rows)[0][0]));
}

Result<std::uint32_t> start_replay(Inbox& inbox, const std::string& consumer) {
    return in_transaction(inbox, [&](TimePoint) -> Result<std::uint32_t> {
        const SqlValue values[] = {consumer};
        auto found = inbox.ask("select generation from semel.consumer where name = $1 for update", values);
        if (!found) return found.failure();
        if (found->empty())
            return Failure{Code::invalid, fmt::format("consumer {}: there is none of that name", consumer)};
        auto open = inbox.ask("select count(*) from semel.shelf where consumer = $1", values);
        if (!open) return open.failure();
        if (integer((*open)[0][0]) > 0)
            return Failure{Code::contended,
                           fmt::format("consumer {}: {} messages wait on its shelf; a new generation begins with "
                                       "nothing open: let them be handled or die first",
                                       consumer, integer((*open)[0][0]))};
        auto members = inbox.ask("select count(*) from semel.consumer_member where consumer = $1", values);
        if (!members) return members.failure();
        if (integer((*members)[0][0]) > 0)
            return Failure{Code::contended,
                           fmt::format("consumer {}: {} members are at work, or have crashed with work that may come "
                                       "again: stop them, or `semel consumer forget {}` if they are gone",
                                       consumer, integer((*members)[0][0]), consumer)};
        auto next = next_generation(inbox, consumer);
        if (!next) return next.failure();
        auto set = inbox.ask("update semel.consumer set generation = generation_last where name = $1", values);
        if (!set) return set.failure();
        return *next;
    });
}

Status note_progress(Inbox& inbox, const std::string& consumer, const std::string& member, TimePoint progress,
                     TimePoint now, TimePoint since) {
    const SqlValue values[] = {consumer, member, micros(progress), micros(now)};
    auto noted = inbox.ask(
        "insert into semel.consumer_member (consumer, member, progress, beat) values ($1, $2, $3, $4) "
        "on conflict (consumer, member) do update set progress = excluded.progress, beat = excluded.beat",
        values);
    if (!noted) return noted.failure();
    const TimePoint silent = now - silence_max;
    if (since > silent) return Done{};
    const SqlValue limits[] = {consumer, micros(silent)};
    auto forgotten = inbox.ask("delete from semel.consumer_member where consumer = $1 and beat < $2", limits);
    if (!forgotten) return forgotten.failure();
    return Done{};
}

Status leave_group(Inbox& inbox, const std::string& consumer, const std::string& member) {
    const SqlValue values[] = {consumer, member};
    auto left = inbox.ask("delete from semel.consumer_member where consumer = $1 and member = $2", values);
    if (!left) return left.failure();
    return Done{};
}

Result<std::vector<GroupReport>> report_groups(Inbox& inbox) {
    return in_transaction(inbox, [&](TimePoint) -> Result<std::vector<GroupReport>> {
        auto rows = inbox.ask(
            "select name, generation, "
            "(select count(*) from semel.shelf s where s.consumer = c.name and s.held = 0), "
            "(select count(*) from semel.shelf s where s.consumer = c.name and s.held = 1), "
            "(select count(*) from semel.dead_letter d where d.consumer = c.name), "
            "(select count(*) from semel.consumer_member m where m.consumer = c.name), "
            "(select min(progress) from semel.consumer_member m where m.consumer = c.name) "
            "from semel.consumer c order by name",
            {});
        if (!rows) return rows.failure();
        std::vector<GroupReport> groups;
        for (const SqlRow& row : *rows)
            groups.push_back({.name = std::get<std::string>(row[0]),
                              .generation = static_cast<std::uint32_t>(integer(row[1])),
                              .waiting = integer(row[2]),
                              .held = integer(row[3]),
                              .dead = integer(row[4]),
                              .members = integer(row[5]),
                              .progress = time_from_micros(integer(row[6]))});
        return groups;
    });
}

Result<bool> forget_members(Inbox& inbox, const std::string& consumer) {
    return in_transaction(inbox, [&](TimePoint) -> Result<bool> {
        const SqlValue values[] = {consumer};
        auto found = inbox.ask("select 1 from semel.consumer where name = $1", values);
        if (!found) return found.failure();
        if (found->empty()) return false;
        auto forgotten = inbox.ask("delete from semel.consumer_member where consumer = $1", values);
        if (!forgotten) return forgotten.failure();
        return true;
    });
}

}  // namespace semel
