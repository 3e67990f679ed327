#include "semel/envelope.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/base64.hpp"
#include "base/quote.hpp"
#include "ledger/json_document.hpp"
#include "ledger/json_pointer.hpp"

namespace semel {
namespace {

constexpr std::size_t name_bytes_max = 64;  // of an attribute; CloudEvents asks for 20 at most, but not strictly

Failure refused(std::string why) { return {Code::invalid, std::move(why)}; }

// ---- text ----------------------------------------------------------------------------------------------------------

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lower(std::string_view text) {
    std::string out(text);
    std::ranges::transform(out, out.begin(), [](char c) { return lower(c); });
    return out;
}

std::string media_type(std::string_view content_type) {
    content_type = content_type.substr(0, content_type.find(';'));
    const auto first = content_type.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return lower(content_type.substr(first, content_type.find_last_not_of(" \t") - first + 1));
}

// C0, DEL and C1, which CloudEvents and every log and page would rather not see. `text` is valid UTF-8.
bool has_control(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x20 || byte == 0x7f) return true;
        if (byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) return true;
    }
    return false;
}

Status check_text(std::string_view what, std::string_view text, std::size_t bytes_max) {
    if (text.size() > bytes_max)
        return refused(fmt::format("{} has {} bytes; at most {} are allowed", what, text.size(), bytes_max));
    if (!simdjson::validate_utf8(text)) return refused(fmt::format("{} is not valid UTF-8", what));
    if (has_control(text)) return refused(fmt::format("{} has a control character", what));
    return Done{};
}

// A whole number as JSON spells it. -0 is refused: it would be another text for 0.
bool is_whole(std::string_view number) {
    return number != "-0" && number.find_first_of(".eE") == std::string_view::npos;
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = lower(c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// The value of a header where headers are as in HTTP: perhaps a quoted string, then percent-encoded.
std::optional<std::string> decoded(std::string_view value) {
    std::string plain(value);
    if (value.starts_with('"')) {
        if (value.size() < 2 || !value.ends_with('"')) return std::nullopt;
        plain.clear();
        value = value.substr(1, value.size() - 2);
        for (std::size_t i = 0; i < value.size(); ++i) {
            if (value[i] == '"') return std::nullopt;
            if (value[i] == '\\' && ++i == value.size()) return std::nullopt;
            plain.push_back(value[i]);
        }
    }
    std::string out;
    for (std::size_t i = 0; i < plain.size(); ++i) {
        if (plain[i] != '%') {
            out.push_back(plain[i]);
            continue;
        }
        if (plain.size() - i < 3) return std::nullopt;
        const int high = hex_digit(plain[i + 1]);
        const int low = hex_digit(plain[i + 2]);
        if (high < 0 || low < 0) return std::nullopt;
        out.push_back(static_cast<char>(high * 16 + low));
        i += 2;
    }
    return out;
}

// ---- JSON ----------------------------------------------------------------------------------------------------------

Result<JsonDocument> parse_body(std::string_view body) {
    if (body.empty()) return refused("the body is empty; it has to be JSON");
    if (!simdjson::validate_utf8(body)) return refused("the body is not valid UTF-8");
    auto document = JsonDocument::parse(body);
    if (document) return std::move(*document);
    return refused(
        fmt::format("the body is not JSON, or has a name twice in one object, a lone surrogate or more than {} levels",
                    JsonDocument::depth_max));
}

// Steps over valid JSON. JsonDocument has told what it says; what is wanted here is how it was written.
class JsonText {
public:
    explicit JsonText(std::string_view valid) : text_(valid) {}

    /// The value of the `nth` member of the object that the text is.
    std::string_view member(std::size_t nth) {
        skip_space();
        ++at_;
        for (;; --nth) {
            skip_space();
            skip_string();
            skip_space();
            ++at_;  // the colon
            skip_space();
            const std::size_t begin = at_;
            skip_value();
            if (nth == 0) return text_.substr(begin, at_ - begin);
            skip_space();
            ++at_;  // the comma
        }
    }

private:
    void skip_space() { at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size()); }
    void skip_string() {
        for (++at_; text_[at_] != '"'; ++at_)
            if (text_[at_] == '\\') ++at_;
        ++at_;
    }
    void skip_value() {
        std::size_t open = 0;
        do {
            switch (text_[at_]) {
                case '"': skip_string(); break;
                case '{':
                case '[':
                    ++open;
                    ++at_;
                    break;
                case '}':
                case ']':
                    --open;
                    ++at_;
                    break;
                case ',':
                case ':': ++at_; break;
                default: at_ = std::min(text_.find_first_of(",:]}\" \t\n\r", at_), text_.size());
            }
            if (open > 0) skip_space();
        } while (open > 0);
    }

    std::string_view text_;
    std::size_t at_ = 0;
};

// ---- CloudEvents ---------------------------------------------------------------------------------------------------

using Attribute = std::string Event::*;
constexpr std::array<std::pair<std::string_view, Attribute>, 7> core_attributes{
    {{"id", &Event::id},
     {"source", &Event::source},
     {"type", &Event::type},
     {"subject", &Event::subject},
     {"time", &Event::time},
     {"datacontenttype", &Event::data_content_type},
     {"dataschema", &Event::data_schema}}};

bool is_core(std::string_view name) {
    return name == "specversion" ||
           std::ranges::find(core_attributes, name, &std::pair<std::string_view, Attribute>::first) !=
               core_attributes.end();
}

bool is_attribute_name(std::string_view name) {
    const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    return !name.empty() && name.size() <= name_bytes_max && std::ranges::all_of(name, allowed);
}

// Gathers attributes, one by one, each of them checked.
class Attributes {
public:
    explicit Attributes(const EnvelopeOptions& options) : options_(options) {}

    Status add(std::string_view name, std::string value) {
        if (!is_attribute_name(name) || name == "data")
            return refused(fmt::format("{} is no name of an attribute; write 1 to {} characters of a-z and 0-9",
                                       in_quotes(name), name_bytes_max));
        if (std::ranges::find(names_, name) != names_.end())
            return refused(fmt::format("the attribute {} is there twice", name));
        if (names_.size() == options_.attributes_max)
            return refused(fmt::format("there are more than {} attributes", options_.attributes_max));
        names_.emplace_back(name);
        const std::size_t bytes_max = name == "id" ? options_.id_bytes_max : options_.attribute_bytes_max;
        if (auto checked = check_text(fmt::format("the attribute {}", name), value, bytes_max); !checked)
            return checked;
        place_of(name) = std::move(value);
        return Done{};
    }

    /// Everything but the data.
    Result<Event> take() {
        const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
        for (const auto& [name, value] : {std::pair<std::string_view, const std::string*>{"specversion", &version_},
                                          {"id", &event_.id},
                                          {"source", &event_.source},
                                          {"type", &event_.type}})
            if (value->empty()) return refused(fmt::format("the attribute {} is missing or empty", name));
        if (!version_.starts_with("1.") || version_.size() < 3 || version_.size() > 5 ||
            !std::ranges::all_of(version_.substr(2), is_digit))
            return refused(fmt::format("specversion is {}; only 1.0 is known", in_quotes(version_)));
        return std::move(event_);
    }

private:
    std::string& place_of(std::string_view name) {
        if (name == "specversion") return version_;
        for (const auto& [core, member] : core_attributes)
            if (core == name) return event_.*member;
        event_.extensions.push_back({.name = std::string(name)});
        return event_.extensions.back().value;
    }

    const EnvelopeOptions& options_;
    Event event_{};
    std::string version_{};
    std::vector<std::string> names_{};
};

// An attribute's name by its header, if it is one's.
std::optional<std::string> attribute_of(std::string_view header, Binding binding) {
    const auto after = [&](std::string_view prefix) -> std::optional<std::string> {
        if (!header.starts_with(prefix)) return std::nullopt;
        return std::string(header.substr(prefix.size()));
    };
    switch (binding) {
        case Binding::kafka: return after("ce_");
        case Binding::redis: return after("ce-");
        case Binding::rabbitmq: {
            auto name = after("cloudEvents:");
            return name ? name : after("cloudEvents_");
        }
        case Binding::nats: {
            if (header.size() < 3 || lower(header.substr(0, 3)) != "ce-") return std::nullopt;
            return lower(header.substr(3));
        }
    }
    return std::nullopt;
}

std::string_view prefix_of(Binding binding) {
    switch (binding) {
        case Binding::kafka: return "ce_";
        case Binding::rabbitmq: return "cloudEvents:";
        case Binding::nats:
        case Binding::redis: return "ce-";
    }
    return "ce-";
}

bool is_binary(const Message& message) {
    return std::ranges::any_of(message.headers, [&](const MessageHeader& header) {
        return attribute_of(header.name, message.binding) == "specversion";
    });
}

Result<Event> read_binary(const Message& message, const EnvelopeOptions& options) {
    Attributes attributes(options);
    for (const auto& [header, value] : message.headers) {
        const auto name = attribute_of(header, message.binding);
        if (!name) continue;
        auto text = message.binding == Binding::nats ? decoded(value) : std::optional(value);
        if (!text)
            return refused(fmt::format("the header {} is not percent-encoded as it has to be", in_quotes(header)));
        // Some senders say it twice; to say two things is another matter.
        if (*name == "datacontenttype" && !message.content_type.empty()) {
            if (*text != message.content_type)
                return refused("the attribute datacontenttype is not the message's content type");
            continue;
        }
        if (auto added = attributes.add(*name, std::move(*text)); !added) return std::move(added).failure();
    }
    if (!message.content_type.empty())
        if (auto added = attributes.add("datacontenttype", message.content_type); !added)
            return std::move(added).failure();
    auto event = attributes.take();
    if (event) event->data = message.body;
    return event;
}

// The text of an attribute in JSON; nothing for null, which is as if it was not there.
Result<std::optional<std::string>> attribute_value(std::string_view name, const JsonDocument::Node& node) {
    using Kind = JsonDocument::Kind;
    if (node.kind == Kind::string) return std::optional(std::string(node.text));
    if (node.kind == Kind::literal && node.text == "null") return std::optional<std::string>();
    if (is_core(name)) return refused(fmt::format("the attribute {} is no text", name));
    if (node.kind == Kind::literal || (node.kind == Kind::number && is_whole(node.text)))
        return std::optional(std::string(node.text));
    return refused(fmt::format("the attribute {} is no text, whole number, true or false", in_quotes(name)));
}

// The data of an event whose other attributes were read. A name's index is 0 where there is no such member.
struct DataMembers {
    JsonDocument::Index data = 0;
    JsonDocument::Index base64 = 0;
};

Status read_data(const JsonDocument& document, std::string_view body, DataMembers at, Event& event) {
    if (at.data != 0 && at.base64 != 0) return refused("there is both data and data_base64");
    if (at.data != 0) {
        if (event.data_content_type.empty()) event.data_content_type = "application/json";  // what its absence means
        const JsonDocument::Node& value = document.node(at.data + 1);
        if (value.kind == JsonDocument::Kind::string && !is_json(event.data_content_type)) {
            event.data = value.text;
        } else {
            const auto names = document.members(document.node(0));
            const auto before = std::ranges::count_if(names, [&](JsonDocument::Index name) { return name < at.data; });
            event.data = JsonText(body).member(static_cast<std::size_t>(before));
        }
    }
    if (at.base64 != 0) {
        const JsonDocument::Node& value = document.node(at.base64 + 1);
        auto bytes = value.kind == JsonDocument::Kind::string ? from_base64(value.text) : std::nullopt;
        if (!bytes) return refused("data_base64 is not a text in base64");
        event.data = std::move(*bytes);
    }
    return Done{};
}

Result<Event> read_structured(const Message& message, const EnvelopeOptions& options) {
    const auto document = parse_body(message.body);
    if (!document) return document.failure();
    const JsonDocument::Node& root = document->node(0);
    if (root.kind != JsonDocument::Kind::object) return refused("the body is JSON, but not an object");

    Attributes attributes(options);
    DataMembers data_at;
    for (const JsonDocument::Index index : document->members(root)) {
        const std::string_view name = document->node(index).text;
        if (name == "data" || name == "data_base64") {
            (name == "data" ? data_at.data : data_at.base64) = index;
            continue;
        }
        auto value = attribute_value(name, document->node(index + 1));
        if (!value) return std::move(value).failure();
        if (!*value) continue;
        if (auto added = attributes.add(name, std::move(**value)); !added) return std::move(added).failure();
    }
    auto event = attributes.take();
    if (!event) return event;
    if (auto read = read_data(*document, message.body, data_at, *event); !read) return std::move(read).failure();
    return event;
}

Result<Event> read_cloud_event(const Message& message, const EnvelopeOptions& options) {
    const std::string type = media_type(message.content_type);
    if (type == "application/cloudevents+json") return read_structured(message, options);
    if (type.starts_with("application/cloudevents-batch"))
        return refused("a batch of events in one message; send each event in a message of its own");
    if (type.starts_with("application/cloudevents"))
        return refused(
            fmt::format("the content type is {}; of the formats of CloudEvents only JSON is known", in_quotes(type)));
    if (is_binary(message)) return read_binary(message, options);
    if (message.binding == Binding::nats && type.empty()) return read_structured(message, options);
    return refused(
        fmt::format("no CloudEvent: the content type is {}, not application/cloudevents+json, and there is no "
                    "header {}specversion",
                    in_quotes(type), prefix_of(message.binding)));
}

// ---- JSON with pointers --------------------------------------------------------------------------------------------

// What is at the pointer, if anything is.
Result<std::optional<std::string>> text_at(const JsonDocument& document, const std::string& pointer,
                                           std::string_view what, std::size_t bytes_max) {
    const auto parsed = JsonPointer::parse(pointer);
    if (!parsed) return parsed.failure();
    const auto at = document.find(*parsed);
    if (!at) return std::optional<std::string>();
    const JsonDocument::Node& node = document.node(*at);
    const bool fits =
        node.kind == JsonDocument::Kind::string || (node.kind == JsonDocument::Kind::number && is_whole(node.text));
    if (!fits) return refused(fmt::format("the {} at {} is no text and no whole number", what, in_quotes(pointer)));
    if (auto checked = check_text(fmt::format("the {} at {}", what, in_quotes(pointer)), node.text, bytes_max);
        !checked)
        return std::move(checked).failure();
    return std::optional(std::string(node.text));
}

Result<Event> read_json(const Message& message, const EnvelopeOptions& options) {
    const auto document = parse_body(message.body);
    if (!document) return document.failure();
    const struct {
        std::string_view what;
        const std::string& pointer;
        std::string_view constant;
        Attribute to;
        bool needed;
    } parts[] = {{"id", options.id_pointer, {}, &Event::id, true},
                 {"type", options.type_pointer, options.type, &Event::type, true},
                 {"source", options.source_pointer, options.source, &Event::source, true},
                 {"subject", options.subject_pointer, {}, &Event::subject, false},
                 {"time", options.time_pointer, {}, &Event::time, false}};
    Event event;
    for (const auto& part : parts) {
        const bool is_id = part.to == &Event::id;
        if (part.pointer.empty() && !is_id) {
            event.*part.to = part.constant;
            continue;
        }
        auto text =
            text_at(*document, part.pointer, part.what, is_id ? options.id_bytes_max : options.attribute_bytes_max);
        if (!text) return std::move(text).failure();
        if (!*text && part.needed)
            return refused(fmt::format("there is no {} at {}", part.what, in_quotes(part.pointer)));
        event.*part.to = std::move(*text).value_or("");
    }
    if (event.id.empty()) return refused(fmt::format("the id at {} is empty", in_quotes(options.id_pointer)));
    event.data_content_type = message.content_type.empty() ? "application/json" : message.content_type;
    if (auto checked = check_text("the content type", event.data_content_type, options.attribute_bytes_max); !checked)
        return std::move(checked).failure();
    event.data = message.body;
    return event;
}

}  // namespace

std::string_view name(EnvelopeKind kind) {
    switch (kind) {
        case EnvelopeKind::cloudevents: return "cloudevents";
        case EnvelopeKind::json: return "json";
    }
    return "unknown";
}

Status check(const EnvelopeOptions& options) {
    if (options.kind == EnvelopeKind::cloudevents) return Done{};
    if (options.id_pointer.empty()) return refused("id: a JSON pointer has to say where a message's id is, as in /id");
    for (const auto& [what, pointer] : {std::pair<std::string_view, const std::string*>{"id", &options.id_pointer},
                                        {"type", &options.type_pointer},
                                        {"source", &options.source_pointer},
                                        {"subject", &options.subject_pointer},
                                        {"time", &options.time_pointer}})
        if (const auto parsed = JsonPointer::parse(*pointer); !parsed)
            return refused(fmt::format("{}: {}", what, parsed.failure().message));
    for (const auto& [what, text] :
         {std::pair<std::string_view, const std::string*>{"type", &options.type}, {"source", &options.source}})
        if (auto checked = check_text(what, *text, options.attribute_bytes_max); !checked) return checked;
    return Done{};
}

Result<Event> read_envelope(const Message& message, const EnvelopeOptions& options) {
    if (message.body.size() > options.body_bytes_max)
        return refused(
            fmt::format("the body has {} bytes; at most {} are allowed", message.body.size(), options.body_bytes_max));
    return options.kind == EnvelopeKind::json ? read_json(message, options) : read_cloud_event(message, options);
}

bool is_json(std::string_view content_type) {
    const std::string type = media_type(content_type);
    return type.ends_with("/json") || (type.ends_with("+json") && type.find('/') != std::string::npos);
}

}  // namespace semel
