#include "cli/show_letter.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "base/bytes.hpp"
#include "base/duration.hpp"
#include "cli/show_record.hpp"
#include "cli/table.hpp"

namespace semel::cli {
namespace {

constexpr std::size_t hex_bytes_per_line = 32;

std::string time_and_age(TimePoint at, TimePoint now) {
    return fmt::format("{} ({}{})", to_text(at), age_text(now - at), at > now ? "" : " ago");
}

/// What a broker or a producer wrote, on one line of a terminal: bytes that are no text are written \xNN.
std::string on_one_line(std::string_view bytes) {
    if (is_text(bytes)) return printable(bytes);
    std::string shown;
    for (const char c : bytes) {
        if (c >= 0x20 && c <= 0x7e)
            shown += c;
        else
            shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    return shown;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : on_one_line(text); }

}  // namespace

bool is_text(std::string_view bytes) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
        const auto byte = static_cast<unsigned char>(bytes[i]);
        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f) return false;
        // U+0080 to U+009F: a terminal may take them for commands.
        if (byte == 0xc2 && i + 1 < bytes.size() && static_cast<unsigned char>(bytes[i + 1]) < 0xa0) return false;
    }
    return simdjson::validate_utf8(bytes.data(), bytes.size());
}

std::string body_text(std::string_view body) {
    std::string text;
    if (is_text(body)) {
        text = body;
        if (!text.ends_with('\n')) text += '\n';
        return text;
    }
    for (; !body.empty(); body.remove_prefix(std::min(hex_bytes_per_line, body.size())))
        text += to_hex(body.substr(0, hex_bytes_per_line)) + '\n';
    return text;
}

std::string_view what_to_do(std::string_view reason) {
    if (reason == name(DeadReason::unreadable))
        return "correct its producer, or the consumer's envelope and order settings; then retry";
    if (reason == name(DeadReason::no_key))
        return "correct its producer, or where the consumer looks for the id; then retry";
    if (reason == name(DeadReason::rejected))
        return "its handler said that no try can help: correct the handler or what it found missing, then retry; or "
               "drop";
    if (reason == name(DeadReason::tries_exhausted)) return "correct what the error says, then retry";
    if (reason == name(DeadReason::key_reused))
        return "another message had this id before: drop it if that one was meant. A retry applies this one as well";
    if (reason == name(DeadReason::outcome_unknown))
        return "find out at the other side whether it happened. If it did, drop it; a retry repeats the effect under "
               "another key";
    if (reason == name(DeadReason::key_expired))
        return "it may have been done so long ago that nobody remembers: look, then drop or retry";
    if (reason == name(DeadReason::refused))
        return "the ledger or the database could not take it; correct that, then retry";
    return {};
}

std::string letter_table(const std::vector<DeadLetter>& letters, TimePoint now) {
    using enum Table::Align;
    Table table({{"NUMBER", right},
                 {"CONSUMER"},
                 {"AGE", right},
                 {"REASON"},
                 {"TRIES", right},
                 {"KEY"},
                 {"TOPIC"},
                 {"POSITION"},
                 {"ERROR"}});
    for (const DeadLetter& letter : letters)
        table.add({std::to_string(letter.number), letter.consumer, age_text(now - letter.at), letter.reason,
                   std::to_string(letter.tries), letter.operation ? letter.operation->key.text() : "-",
                   or_dash(letter.message.topic), or_dash(letter.message.position), or_dash(letter.error)});
    return table.text();
}

std::string letter_detail(const DeadLetter& letter, TimePoint now, const std::string& store) {
    const Message& message = letter.message;
    std::string text;
    const auto line = [&](std::string_view label, std::string_view value) {
        text += fmt::format("{:<13}{}\n", label, on_one_line(value));
    };
    line("letter", std::to_string(letter.number));
    line("consumer", fmt::format("{}, generation {}", letter.consumer, letter.generation));
    line("scope", letter.operation ? letter.operation->scope.text() : "none: no key was found");
    if (letter.operation) line("key", letter.operation->key.text());
    line("reason", letter.reason);
    line("error", letter.error.empty() ? "-" : letter.error);
    line("tries", std::to_string(letter.tries));
    line("died", time_and_age(letter.at, now));
    if (!letter.damage.empty()) line("damage", letter.damage);
    line("broker", name(message.binding));
    line("topic", message.topic);
    line("position", message.position.empty() ? "-" : message.position);
    if (!message.ordering_key.empty()) line("ordering key", message.ordering_key);
    if (message.published) line("published", time_and_age(*message.published, now));
    line("deliveries", std::to_string(message.deliveries));
    line("content type", message.content_type.empty() ? "-" : message.content_type);
    std::string_view label = "headers";
    for (const MessageHeader& header : message.headers) {
        line(label, fmt::format("{}: {}", header.name, header.value));
        label = "";
    }
    line("body", fmt::format("{} bytes", message.body.size()));
    label = "what to do";
    if (const auto what = what_to_do(letter.reason); !what.empty()) {
        line(label, what);
        label = "";
    }
    if (letter.operation) {
        line(label, fmt::format("semel ops show --store {} {} {}", shell_word(store),
                                shell_word(letter.operation->scope.text()), shell_word(letter.operation->key.text())));
        label = "";
    }
    line(label, fmt::format("semel dead retry --store {} {}", shell_word(store), letter.number));
    line("", fmt::format("semel dead drop --store {} {}", shell_word(store), letter.number));
    return text;
}

void write_letter(JsonWriter& json, const DeadLetter& letter, LetterParts parts) {
    const Message& message = letter.message;
    const auto text_or_null = [&](std::string_view name, const std::string& text) {
        if (text.empty())
            json.name(name).null();
        else
            json.member(name, text);
    };
    json.begin_object().member("number", letter.number).member("consumer", letter.consumer);
    json.member("generation", letter.generation);
    text_or_null("scope", letter.operation ? letter.operation->scope.text() : "");
    text_or_null("key", letter.operation ? letter.operation->key.text() : "");
    text_or_null("operation", letter.operation ? to_hex(letter.operation->id().bytes) : "");
    json.member("reason", letter.reason).member("error", letter.error).member("tries", letter.tries);
    json.member("at", to_text(letter.at));
    json.member("broker", name(message.binding)).member("topic", message.topic);
    text_or_null("position", message.position);
    text_or_null("ordering_key", message.ordering_key);
    text_or_null("published", message.published ? to_text(*message.published) : "");
    json.member("deliveries", message.deliveries);
    text_or_null("content_type", message.content_type);
    json.member("body_bytes", message.body.size());
    if (parts != LetterParts::summary) {
        json.name("headers").begin_array();
        for (const MessageHeader& header : message.headers)
            json.begin_object().member("name", header.name).member("value", header.value).end_object();
        json.end_array();
    }
    if (parts == LetterParts::headers_and_body) {
        if (is_text(message.body))
            json.member("body_text", message.body);
        else
            json.member("body_hex", to_hex(message.body));
    }
    json.end_object();
}

}  // namespace semel::cli
