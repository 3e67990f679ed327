#include "consumers/dead_letters.hpp"

#include <fmt/format.h>

#include "base/bytes.hpp"
#include "consumers/group.hpp"
#include "consumers/in_transaction.hpp"
#include "consumers/shelf.hpp"
#include "consumers/stored_message.hpp"

namespace semel {
namespace {

constexpr std::string_view letter_columns =
    "number, consumer, generation, scope, key, reason, error, tries, at, message";

/// What makes two burials one: the operation, or the whole message with the place where the broker keeps it.
SqlBytes identity_of(const DeadLetter& letter) {
    ByteWriter out;
    if (letter.operation) {
        out.raw(view(letter.operation->id().bytes));
        // Other content under the same id is another message.
        if (letter.reason == name(DeadReason::key_reused)) out.prefixed(letter.message.body);
    } else {
        Message same = letter.message;
        same.deliveries = 0;
        same.published.reset();
        out.raw(encode_message(same));
    }
    return {std::string(view(sha256(out.bytes())))};
}

SqlValue or_null(const std::optional<std::string>& text) {
    if (text) return *text;
    return std::monostate{};
}

Result<DeadLetter> read(const SqlRow& row) {
    DeadLetter letter;
    letter.number = std::get<std::int64_t>(row[0]);
    letter.consumer = std::get<std::string>(row[1]);
    letter.generation = static_cast<std::uint32_t>(std::get<std::int64_t>(row[2]));
    const auto* scope = std::get_if<std::string>(&row[3]);
    const auto* key = std::get_if<std::string>(&row[4]);
    if (scope != nullptr && key != nullptr) {
        auto parsed_scope = Scope::parse(*scope);
        auto parsed_key = Key::parse(*key);
        if (parsed_scope && parsed_key)
            letter.operation = Operation{std::move(*parsed_scope), std::move(*parsed_key)};
        else
            letter.damage = "its scope or key cannot be read";
    }
    letter.reason = std::get<std::string>(row[5]);
    letter.error = std::get<std::string>(row[6]);
    letter.tries = static_cast<std::uint32_t>(std::get<std::int64_t>(row[7]));
    letter.at = time_from_micros(std::get<std::int64_t>(row[8]));
    auto message = decode_message(std::get<SqlBytes>(row[9]).value);
    if (message)
        letter.message = std::move(*message);
    else
        letter.damage = message.failure().message;
    return letter;
}

Result<std::optional<DeadLetter>> find(Inbox& inbox, std::int64_t number, std::string_view locking) {
    const SqlValue values[] = {number};
    auto rows =
        inbox.ask(fmt::format("select {} from semel.dead_letter where number = $1{}", letter_columns, locking), values);
    if (!rows) return rows.failure();
    if (rows->empty()) return std::optional<DeadLetter>{};
    auto letter = read((*rows)[0]);
    if (!letter) return letter.failure();
    return std::optional(std::move(*letter));
}

Status remove(Inbox& inbox, std::int64_t number) {
    const SqlValue values[] = {number};
    auto removed = inbox.ask("delete from semel.dead_letter where number = $1", values);
    if (!removed) return removed.failure();
    return Done{};
}

}  // namespace

std::string_view name(DeadReason reason) {
    switch (reason) {
        case DeadReason::unreadable: return "unreadable";
        case DeadReason::no_key: return "no-key";
        case DeadReason::rejected: return "rejected";
        case DeadReason::tries_exhausted: return "tries-exhausted";
        case DeadReason::key_reused: return "key-reused";
        case DeadReason::outcome_unknown: return "outcome-unknown";
        case DeadReason::key_expired: return "key-expired";
        case DeadReason::refused: return "refused";
    }
    return "unknown";
}

void bury(Inbox& inbox, const DeadLetter& letter) {
    std::optional<std::string> scope;
    std::optional<std::string> key;
    if (letter.operation) {
        scope = letter.operation->scope.text();
        key = letter.operation->key.text();
    }
    const SqlValue values[] = {letter.consumer,
                               identity_of(letter),
                               static_cast<std::int64_t>(letter.generation),
                               or_null(scope),
                               or_null(key),
                               letter.reason,
                               letter.error,
                               static_cast<std::int64_t>(letter.tries),
                               micros(letter.at),
                               SqlBytes{encode_message(letter.message)}};
    inbox.tell(
        "insert into semel.dead_letter (consumer, identity, generation, scope, key, reason, error, tries, at, message) "
        "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (consumer, identity) do nothing",
        values);
}

Result<std::vector<DeadLetter>> list_dead(Inbox& inbox, const DeadFilter& filter, std::size_t limit) {
    return in_transaction(inbox, [&](TimePoint) -> Result<std::vector<DeadLetter>> {
        const SqlValue values[] = {filter.before == 0 ? INT64_MAX : filter.before, filter.consumer.value_or(""),
                                   filter.reason.value_or(""), static_cast<std::int64_t>(limit)};
        auto rows = inbox.ask(
            fmt::format("select {} from semel.dead_letter where number < $1 and ($2 = '' or consumer = $2) and "
                        "($3 = '' or reason = $3) order by number desc limit $4",
                        letter_columns),
            values);
        if (!rows) return rows.failure();
        std::vector<DeadLetter> letters;
        for (const SqlRow& row : *rows) {
            auto letter = read(row);
            if (!letter) return letter.failure();
            letters.push_back(std::move(*letter));
        }
        return letters;
    });
}

Result<std::optional<DeadLetter>> find_dead(Inbox& inbox, std::int64_t number) {
    return in_transaction(inbox, [&](TimePoint) { return find(inbox, number, ""); });
}

Result<std::optional<std::uint32_t>> retry_dead(Inbox& inbox, std::int64_t number) {
    return in_transaction(inbox, [&](TimePoint now) -> Result<std::optional<std::uint32_t>> {
        auto letter = find(inbox, number, " for update");
        if (!letter) return letter.failure();
        if (!*letter) return std::optional<std::uint32_t>{};
        if (!(*letter)->damage.empty())
            return Failure{Code::corrupt, fmt::format("dead letter {}: {}", number, (*letter)->damage)};
        auto generation = next_generation(inbox, (*letter)->consumer);
        if (!generation) return generation.failure();
        const Shelved shelved{.generation = *generation,
                              .ready_at = now,
                              .first_at = now,
                              .error = (*letter)->error,
                              .message = std::move((*letter)->message)};
        Shelf(inbox, (*letter)->consumer).put(shelved);
        if (auto removed = remove(inbox, number); !removed) return removed.failure();
        return std::optional(*generation);
    });
}

Result<bool> drop_dead(Inbox& inbox, std::int64_t number) {
    return in_transaction(inbox, [&](TimePoint) -> Result<bool> {
        auto letter = find(inbox, number, " for update");
        if (!letter) return letter.failure();
        if (!*letter) return false;
        if (auto removed = remove(inbox, number); !removed) return removed.failure();
        return true;
    });
}

}  // namespace semel
