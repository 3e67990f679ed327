// Any bytes as a message: the first line says how it is delivered, the lines up to an empty one are its headers, the rest is
// its body. What is read as an event keeps the promises of read_envelope and has a key; what is refused says why, in one line.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/assert.hpp"
#include "ledger/json_document.hpp"
#include "semel/envelope.hpp"
#include "semel/message_key.hpp"

namespace {

using namespace semel;  // NOLINT(google-build-using-namespace): one subject, one file

std::string_view line_of(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

Message message_of(std::string_view text) {
    Message message;
    const std::string_view first = line_of(text);
    message.binding = static_cast<Binding>(1 + (first.empty() ? 0U : static_cast<unsigned char>(first[0]) % 4U));
    message.content_type = first.substr(std::min<std::size_t>(1, first.size()));
    for (std::string_view line = line_of(text); !line.empty(); line = line_of(text)) {
        const std::size_t equals = std::min(line.find('='), line.size());
        message.headers.push_back(
            {std::string(line.substr(0, equals)), std::string(line.substr(std::min(equals + 1, line.size())))});
    }
    message.body = text;
    return message;
}

bool is_clean(std::string_view text) {
    return std::ranges::none_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

void check_event(const Message& message, const Event& event, const EnvelopeOptions& options) {
    SEMEL_ASSERT(!event.id.empty() && event.id.size() <= options.id_bytes_max, "an id within its limit");
    for (const std::string* text : {&event.id, &event.source, &event.type, &event.subject, &event.time,
                                    &event.data_content_type, &event.data_schema})
        SEMEL_ASSERT(is_clean(*text) && text->size() <= options.attribute_bytes_max,
                     "attributes without control characters");
    for (const auto& [name, value] : event.extensions) {
        SEMEL_ASSERT(!name.empty() && is_clean(name) && is_clean(value), "extensions without control characters");
        SEMEL_ASSERT(*event.extension(name) == value, "no extension twice");
    }
    if (options.kind == EnvelopeKind::cloudevents)
        SEMEL_ASSERT(!event.source.empty() && !event.type.empty(), "what CloudEvents require");
    else
        SEMEL_ASSERT(event.data == message.body, "the data is the whole body");
    // Of a structured event that is known to be JSON, the text was cut out where it begins and ends.
    const bool in_body = message.content_type == "application/cloudevents+json" && !event.data.empty();
    if (in_body && is_json(event.data_content_type) && message.body.find("base64") == std::string::npos &&
        message.body.find('\\') == std::string::npos && options.kind == EnvelopeKind::cloudevents)
        SEMEL_ASSERT(JsonDocument::parse(event.data).has_value(), "data is JSON");
    SEMEL_ASSERT(key_of(message, event, {}).ok(), "an event has a key");
    SEMEL_ASSERT(key_of(message, event, {.source = KeySource::content}).ok(), "content has a key");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const EnvelopeOptions all_options[] = {
        {},
        {.kind = EnvelopeKind::json, .id_pointer = "/id", .source = "s", .subject_pointer = "/a/0"},
        {.kind = EnvelopeKind::json, .id_pointer = "/0", .type_pointer = "/type", .source_pointer = "/source"}};
    const Message message = message_of({reinterpret_cast<const char*>(data), size});
    for (const EnvelopeOptions& options : all_options) {
        const auto event = read_envelope(message, options);
        SEMEL_ASSERT(event.ok() == read_envelope(message, options).ok(), "the same again");
        if (event) {
            check_event(message, *event, options);
        } else {
            SEMEL_ASSERT(event.failure().code == Code::invalid && !event.failure().message.empty(),
                         "refused as what it is");
            SEMEL_ASSERT(is_clean(event.failure().message), "one line");
        }
    }
    static const MessageKeyOptions by_producer{
        .source = KeySource::producer, .producer_header = "p", .sequence_header = "s"};
    const auto key = key_of(message, {}, by_producer);
    SEMEL_ASSERT(key.ok() || is_clean(key.failure().message), "one line");
    return 0;
}
