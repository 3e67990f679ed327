#include "consumers/item.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/random.hpp"
#include "semel/fingerprint.hpp"

namespace semel {
namespace {

void die(Item& item, DeadReason reason, std::string_view error) {
    item.fate = Fate::dead;
    item.reason = reason;
    item.error = error_text(error);
}

/// Of the order guard: which aggregate, and which of its events.
void read_order(Item& item, const ConsumerOptions& options) {
    item.aggregate = order_text(!item.event.subject.empty() ? item.event.subject : item.message->ordering_key);
    const std::string* text = item.event.extension(options.sequence_extension);
    std::int64_t number = 0;
    bool read = false;
    if (text != nullptr) {
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
        constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / 2;
        read = error == std::errc{} && end == text->data() + text->size() && number >= -most && number <= most;
    }
    if (item.aggregate.empty())
        return die(item, DeadReason::unreadable, "the order guard needs a subject or an ordering key; it has neither");
    if (!read)
        return die(item, DeadReason::unreadable,
                   fmt::format("the order guard needs a whole number in the extension `{}` (sequence)",
                               options.sequence_extension));
    item.sequence = number;
}

}  // namespace

std::string error_text(std::string_view text) {
    constexpr std::size_t bytes_max = 1000;
    std::string kept;
    for (const char c : text.substr(0, bytes_max)) {
        const auto byte = static_cast<unsigned char>(c);
        kept += byte >= 0x20 && byte <= 0x7e ? c : byte == '\n' || byte == '\t' ? ' ' : '?';
    }
    if (text.size() > bytes_max) kept += "...";
    return kept;
}

Item read_item(const Message& message, const ConsumerOptions& options) {
    Item item;
    item.message = &message;
    auto event = read_envelope(message, options.envelope);
    if (!event) {
        die(item, DeadReason::unreadable, event.failure().message);
        return item;
    }
    item.event = std::move(*event);
    auto key = key_of(message, item.event, options.key);
    if (!key) {
        die(item, DeadReason::no_key, key.failure().message);
        return item;
    }
    item.key = std::move(*key);
    item.fingerprint = fingerprint_of_message(item.event.type, item.event.data);
    if (options.order != OrderGuard::off) read_order(item, options);
    return item;
}

Item read_item(const Shelved& shelved, const ConsumerOptions& options) {
    Item item = read_item(shelved.message, options);
    item.tries = shelved.tries + 1;
    item.shelf_number = shelved.number;
    item.shelf_generation = shelved.generation;
    item.first_at = shelved.first_at;
    return item;
}

Duration backoff(const RetryOptions& retries, std::uint32_t tries) {
    SystemRandom random;
    return backoff(retries.first, retries.max, tries, random);
}

}  // namespace semel
