#include "consumers/shelf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/bytes.hpp"
#include "base/json.hpp"
#include "consumers/item.hpp"
#include "consumers/stored_message.hpp"

namespace semel {
namespace {

std::int64_t integer(const SqlValue& value) { return std::get<std::int64_t>(value); }

SqlValue or_null(const std::optional<std::int64_t>& value) {
    if (value) return *value;
    return std::monostate{};
}

Result<Shelved> read(const SqlRow& row) {
    Shelved shelved;
    shelved.number = integer(row[0]);
    shelved.generation = static_cast<std::uint32_t>(integer(row[1]));
    shelved.aggregate = std::get<std::string>(row[2]);
    if (const auto* sequence = std::get_if<std::int64_t>(&row[3])) shelved.sequence = *sequence;
    shelved.ready_at = time_from_micros(integer(row[4]));
    shelved.tries = static_cast<std::uint32_t>(integer(row[5]));
    shelved.first_at = time_from_micros(integer(row[6]));
    shelved.error = std::get<std::string>(row[7]);
    auto message = decode_message(std::get<SqlBytes>(row[8]).value);
    if (!message) return std::move(message).failure();
    shelved.message = std::move(*message);
    return shelved;
}

}  // namespace

std::string order_text(std::string_view key) {
    constexpr std::size_t plain_max = 200;
    const auto printable = [](unsigned char c) { return c >= 0x20 && c <= 0x7e; };
    if (key.empty()) return {};
    if (key.size() <= plain_max && std::ranges::all_of(key, printable)) return "=" + std::string(key);
    return "#" + to_hex(sha256(key));
}

void Shelf::put(const Shelved& shelved) {
    const SqlValue values[] = {consumer_,
                               static_cast<std::int64_t>(shelved.generation),
                               order_text(shelved.message.ordering_key),
                               shelved.aggregate,
                               or_null(shelved.sequence),
                               std::int64_t{shelved.held ? 1 : 0},
                               micros(shelved.ready_at),
                               static_cast<std::int64_t>(shelved.tries),
                               micros(shelved.first_at),
                               shelved.error,
                               SqlBytes{encode_message(shelved.message)}};
    inbox_.tell(
        "insert into semel.shelf (consumer, generation, ordering_key, aggregate, sequence, held, ready_at, tries, "
        "first_at, error, message) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        values);
}

void Shelf::remove(std::int64_t number) {
    const SqlValue values[] = {number};
    inbox_.tell("delete from semel.shelf where number = $1", values);
}

void Shelf::postpone(std::int64_t number, std::uint32_t tries, TimePoint ready_at, const std::string& error) {
    const SqlValue values[] = {number, static_cast<std::int64_t>(tries), micros(ready_at), error};
    inbox_.tell("update semel.shelf set tries = $2, ready_at = $3, error = $4 where number = $1", values);
}

Result<std::vector<std::string>> Shelf::blocked(const std::vector<std::string>& ordering_keys) {
    JsonWriter keys;
    keys.begin_array();
    for (const std::string& key : ordering_keys) keys.value(order_text(key));
    keys.end_array();
    const SqlValue values[] = {consumer_, keys.text()};
    auto rows = inbox_.ask(
        "select distinct ordering_key from semel.shelf where consumer = $1 and held = 0 and ordering_key in "
        "(select value from json_array_elements_text($2::json))",
        values);
    if (!rows) return rows.failure();
    std::vector<std::string> blocked;
    for (const std::string& key : ordering_keys)
        if (std::ranges::find(*rows, SqlRow{order_text(key)}) != rows->end()) blocked.push_back(key);
    return blocked;
}

namespace {

constexpr std::string_view shelf_columns =
    "number, generation, aggregate, sequence, ready_at, tries, first_at, error, message, ordering_key";

}  // namespace

/// The rows behind those that are locked: whoever has the first of an ordering key has the whole of it.
Result<std::vector<SqlRow>> Shelf::rows_behind(const std::vector<SqlRow>& first, std::size_t limit) {
    JsonWriter keys;
    keys.begin_array();
    for (const SqlRow& row : first)
        if (const auto& key = std::get<std::string>(row[9]); !key.empty()) keys.value(key);
    keys.end_array();
    const SqlValue values[] = {consumer_, keys.text(), static_cast<std::int64_t>(limit)};
    return inbox_.ask(
        fmt::format(
            "select {} from semel.shelf where consumer = $1 and held = 0 and ordering_key in (select value from "
            "json_array_elements_text($2::json)) order by number limit $3 for update skip locked",
            shelf_columns),
        values);
}

Result<std::vector<Shelved>> Shelf::due(TimePoint now, std::size_t limit) {
    const SqlValue values[] = {consumer_, micros(now), static_cast<std::int64_t>(limit)};
    auto rows = inbox_.ask(
        fmt::format("select {} from semel.shelf s where consumer = $1 and held = 0 and ready_at <= $2 and "
                    "(ordering_key = '' or not exists (select 1 from semel.shelf e where e.consumer = s.consumer and "
                    "e.ordering_key = s.ordering_key and e.held = 0 and e.number < s.number)) "
                    "order by ready_at, number limit $3 for update skip locked",
                    shelf_columns),
        values);
    if (!rows) return rows.failure();
    if (!rows->empty() && rows->size() < limit) {
        auto behind = rows_behind(*rows, limit);
        if (!behind) return behind.failure();
        std::set<std::string> waiting;
        for (SqlRow& row : *behind) {
            const auto is_same = [&](const SqlRow& other) { return other[0] == row[0]; };
            if (std::ranges::any_of(*rows, is_same)) continue;
            const std::string key = std::get<std::string>(row[9]);
            if (integer(row[4]) > micros(now)) waiting.insert(key);
            if (!waiting.contains(key) && rows->size() < limit) rows->push_back(std::move(row));
        }
    }
    std::vector<Shelved> due;
    for (const SqlRow& row : *rows) {
        auto shelved = read(row);
        if (shelved) {
            due.push_back(std::move(*shelved));
            continue;
        }
        // Set aside for a person; the others go on.
        const SqlValue which[] = {row[0], error_text(shelved.failure().message)};
        inbox_.tell("update semel.shelf set held = 2, error = $2 where number = $1", which);
    }
    return due;
}

Result<std::optional<TimePoint>> Shelf::next_due() {
    const SqlValue values[] = {consumer_};
    auto rows = inbox_.ask(
        "select min(ready_at) from semel.shelf s where consumer = $1 and held = 0 and (ordering_key = '' or not exists "
        "(select 1 from semel.shelf e where e.consumer = s.consumer and e.ordering_key = s.ordering_key and e.held = 0 "
        "and e.number < s.number))",
        values);
    if (!rows) return rows.failure();
    const auto* at = std::get_if<std::int64_t>(&(*rows)[0][0]);
    if (at == nullptr) return std::optional<TimePoint>{};
    return std::optional(time_from_micros(*at));
}

void Shelf::let_go(const std::string& aggregate, const std::string& book, TimePoint now) {
    const SqlValue values[] = {consumer_, aggregate, book, micros(now)};
    inbox_.tell(
        "update semel.shelf set held = 0, ready_at = $4 where consumer = $1 and held = 1 and aggregate = $2 and "
        "sequence = "
        "(select last + 1 from semel.order_mark where consumer = $3 and aggregate = $2)",
        values);
}

}  // namespace semel
