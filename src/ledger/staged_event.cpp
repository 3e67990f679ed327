#include "ledger/staged_event.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>
#include <array>

namespace semel {
namespace {

constexpr std::size_t name_bytes_max = 64;
constexpr std::size_t attribute_bytes_max = 4096;
constexpr std::size_t key_bytes_max = 1024;  // of an id, a topic or an ordering key
constexpr std::size_t outbox_bytes_max = 255;

Failure refused(const StagedEvent& staged, std::string_view why) {
    return {Code::invalid, fmt::format("stage {}: {}", staged.event.id, why)};
}

bool has_control(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte < 0x20 || byte == 0x7f) return true;
        if (byte == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) return true;
    }
    return false;
}

/// Why the text will not do; empty: it will.
std::string problem_of(std::string_view name, std::string_view text, std::size_t least, std::size_t most) {
    if (text.size() < least) return fmt::format("{} is empty", name);
    if (text.size() > most) return fmt::format("{} has {} bytes; at most {} are allowed", name, text.size(), most);
    if (!simdjson::validate_utf8(text)) return fmt::format("{} is not valid UTF-8", name);
    return has_control(text) ? fmt::format("{} has a control character", name) : "";
}

bool is_extension_name(std::string_view name) {
    constexpr std::array<std::string_view, 9> taken{
        "specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data"};
    const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    return !name.empty() && name.size() <= name_bytes_max && std::ranges::all_of(name, allowed) &&
           std::ranges::find(taken, name) == taken.end();
}

std::vector<const MessageHeader*> sorted_extensions(const Event& event) {
    std::vector<const MessageHeader*> sorted;
    for (const MessageHeader& each : event.extensions) sorted.push_back(&each);
    std::ranges::sort(sorted, {}, [](const MessageHeader* each) -> const std::string& { return each->name; });
    return sorted;
}

}  // namespace

Status check(const StagedEvent& staged) {
    struct Part {
        std::string_view name;
        const std::string& text;
        std::size_t least;
        std::size_t most;
    };
    const Event& event = staged.event;
    for (const Part& part :
         {Part{"outbox", staged.outbox, 1, outbox_bytes_max}, Part{"topic", staged.topic, 1, key_bytes_max},
          Part{"ordering_key", staged.ordering_key, 0, key_bytes_max}, Part{"id", event.id, 1, key_bytes_max},
          Part{"source", event.source, 1, attribute_bytes_max}, Part{"type", event.type, 1, attribute_bytes_max},
          Part{"subject", event.subject, 0, attribute_bytes_max}, Part{"time", event.time, 0, attribute_bytes_max},
          Part{"data_content_type", event.data_content_type, 0, attribute_bytes_max},
          Part{"data_schema", event.data_schema, 0, attribute_bytes_max}})
        if (const std::string why = problem_of(part.name, part.text, part.least, part.most); !why.empty())
            return refused(staged, why);
    const auto extensions = sorted_extensions(event);
    for (std::size_t i = 0; i < extensions.size(); ++i) {
        const auto& [name, value] = *extensions[i];
        if (!is_extension_name(name))
            return refused(
                staged, fmt::format("an extension's name has 1 to {} characters of a-z and 0-9, and is not that of an "
                                    "attribute",
                                    name_bytes_max));
        if (i > 0 && extensions[i - 1]->name == name)
            return refused(staged, fmt::format("the extension {} is there twice", name));
        if (const std::string why = problem_of("the extension " + name, value, 0, attribute_bytes_max); !why.empty())
            return refused(staged, why);
    }
    return Done{};
}

Status check(const OutboxDrop& drop) {
    for (const auto& [name, text, most] :
         {std::tuple<std::string_view, const std::string&, std::size_t>{"who decides", drop.who, outbox_bytes_max},
          {"why", drop.why, attribute_bytes_max}})
        if (const std::string why = problem_of(name, text, 1, most); !why.empty())
            return Failure{Code::invalid, fmt::format("drop event {}: {}", drop.sequence, why)};
    return Done{};
}

std::string extension_lines(const Event& event) {
    std::string lines;
    for (const MessageHeader* each : sorted_extensions(event))
        lines += fmt::format("{}{}={}", lines.empty() ? "" : "\n", each->name, each->value);
    return lines;
}

std::vector<MessageHeader> extensions_of(std::string_view lines) {
    std::vector<MessageHeader> all;
    while (!lines.empty()) {
        const std::size_t end = std::min(lines.find('\n'), lines.size());
        const std::string_view line = lines.substr(0, end);
        if (const auto equals = line.find('='); equals != std::string_view::npos)
            all.push_back({std::string(line.substr(0, equals)), std::string(line.substr(equals + 1))});
        lines.remove_prefix(std::min(end + 1, lines.size()));
    }
    return all;
}

}  // namespace semel
