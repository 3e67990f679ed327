#include "consumers/redis/entries.hpp"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <span>
#include <utility>

namespace semel::redis {
namespace {

std::span<redisReply* const> elements(const redisReply& reply) {
    if (!is_array(reply)) return {};
    return {reply.element, reply.elements};
}

/// An id begins with the milliseconds since 1970 at which the entry was added, unless its producer chose another.
std::optional<TimePoint> published(std::string_view id) {
    std::int64_t milliseconds = 0;
    const auto [end, error] = std::from_chars(id.data(), id.data() + id.size(), milliseconds);
    constexpr std::int64_t milliseconds_max = std::numeric_limits<std::int64_t>::max() / 1000;
    if (error != std::errc{} || !id.substr(static_cast<std::size_t>(end - id.data())).starts_with('-'))
        return std::nullopt;
    if (milliseconds > milliseconds_max) return std::nullopt;
    return time_from_micros(milliseconds * 1000);
}

}  // namespace

std::vector<Entry> read_entries(const redisReply& entries) {
    std::vector<Entry> out;
    for (const redisReply* element : elements(entries)) {
        const auto parts = elements(*element);
        if (parts.size() < 2) continue;
        Entry entry;
        entry.id = text_of(*parts[0]);
        entry.trimmed = !is_array(*parts[1]);
        const auto fields = elements(*parts[1]);
        for (std::size_t at = 0; at + 1 < fields.size(); at += 2)
            entry.fields.push_back({std::string(text_of(*fields[at])), std::string(text_of(*fields[at + 1]))});
        out.push_back(std::move(entry));
    }
    return out;
}

Message to_message(Entry entry, const std::string& stream, const std::string& ordering_field) {
    Message message;
    message.binding = Binding::redis;
    message.topic = stream;
    message.position = fmt::format("{}@{}", stream, entry.id);
    message.published = published(entry.id);
    message.deliveries = entry.deliveries;
    bool has_data = false;
    bool has_type = false;
    for (MessageHeader& field : entry.fields) {
        if (!ordering_field.empty() && field.name == ordering_field) message.ordering_key = field.value;
        if (field.name == "data" && !std::exchange(has_data, true)) {
            message.body = std::move(field.value);
        } else if (field.name == "content-type" && !std::exchange(has_type, true)) {
            message.content_type = std::move(field.value);
        } else {
            message.headers.push_back(std::move(field));
        }
    }
    return message;
}

}  // namespace semel::redis
