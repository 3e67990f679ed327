#include "semel/message_key.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/assert.hpp"
#include "base/bytes.hpp"
#include "base/quote.hpp"

namespace semel {
namespace {

constexpr std::size_t sequence_digits_max = 20;

Failure refused(std::string why) { return {Code::invalid, std::move(why)}; }

bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

// Without a space in it, and never `-`, which stands for the empty text.
std::string escaped(std::string_view text) {
    if (text.empty()) return "-";
    if (text == "-") return "\\-";
    std::string out;
    for (const char c : text) {
        if (c == '\\') {
            out += "\\\\";
        } else if (c == ' ') {
            out += "\\s";
        } else {
            out.push_back(c);
        }
    }
    return out;
}

std::string hash_of(KeySource kind, std::string_view first, std::string_view second) {
    ByteWriter bytes;
    bytes.prefixed("semel/message/1");
    bytes.prefixed(name(kind));
    bytes.prefixed(first);
    bytes.prefixed(second);
    return to_hex(sha256(bytes.bytes()));
}

// `written` if that can be a key, else a hash of what it was written from.
Key key_from(std::string written, KeySource kind, std::string_view first, std::string_view second) {
    const bool fits = written.size() <= Key::bytes_max && is_printable(written);
    auto key = Key::parse(fits ? std::move(written) : "sha256:" + hash_of(kind, first, second));
    SEMEL_ASSERT(key.ok(), "1 to 255 printable characters are a key");
    return std::move(*key);
}

// The one header of that name.
Result<std::string> only_header(const Message& message, const std::string& name) {
    const auto count = std::ranges::count(message.headers, name, &MessageHeader::name);
    if (count == 0)
        return refused(fmt::format("the message has no header {}, of which its key is made", in_quotes(name)));
    if (count > 1) return refused(fmt::format("the message has the header {} more than once", in_quotes(name)));
    const std::string& value = *message.header(name);
    if (value.empty())
        return refused(fmt::format("the header {} is empty; the message's key is made of it", in_quotes(name)));
    return value;
}

Result<Key> envelope_key(const Event& event) {
    if (event.id.empty()) return refused("the event has no id, of which its key is made");
    return key_from(escaped(event.source) + ' ' + event.id, KeySource::envelope, event.source, event.id);
}

Result<Key> producer_key(const Message& message, const MessageKeyOptions& options) {
    if (auto checked = check(options); !checked) return std::move(checked).failure();
    const auto producer = only_header(message, options.producer_header);
    if (!producer) return producer.failure();
    const auto sequence = only_header(message, options.sequence_header);
    if (!sequence) return sequence.failure();
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (sequence->size() > sequence_digits_max || !std::ranges::all_of(*sequence, is_digit))
        return refused(fmt::format("the header {} is no sequence number: it has to be 1 to {} digits",
                                   in_quotes(options.sequence_header), sequence_digits_max));
    return key_from(fmt::format("producer:{}#{}", escaped(*producer), *sequence), KeySource::producer, *producer,
                    *sequence);
}

Result<Key> position_key(const Message& message) {
    if (message.position.empty())
        return refused(
            message.binding == Binding::rabbitmq
                ? "RabbitMQ keeps no position of a message, of which its key could be made; set key to another source"
                : "the message has no position, of which its key is made");
    return key_from("position:" + escaped(message.position), KeySource::position, message.position, {});
}

}  // namespace

std::string_view name(KeySource source) {
    switch (source) {
        case KeySource::envelope: return "envelope";
        case KeySource::producer: return "producer";
        case KeySource::position: return "position";
        case KeySource::content: return "content";
    }
    return "unknown";
}

Status check(const MessageKeyOptions& options) {
    if (options.source != KeySource::producer) return Done{};
    if (options.producer_header.empty())
        return refused("producer_header: the name of the header with the producer's id is needed");
    if (options.sequence_header.empty())
        return refused("sequence_header: the name of the header with the sequence number is needed");
    return Done{};
}

Result<Key> key_of(const Message& message, const Event& event, const MessageKeyOptions& options) {
    switch (options.source) {
        case KeySource::envelope: return envelope_key(event);
        case KeySource::producer: return producer_key(message, options);
        case KeySource::position: return position_key(message);
        case KeySource::content:
            return key_from("content:" + hash_of(KeySource::content, event.type, event.data), KeySource::content,
                            event.type, event.data);
    }
    return refused("no such source of keys");
}

}  // namespace semel
