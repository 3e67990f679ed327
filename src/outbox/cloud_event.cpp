#include "outbox/cloud_event.hpp"

#include <fmt/format.h>

#include "base/bytes.hpp"

namespace semel::outbox {

std::string percent_encoded(std::string_view text) {
    std::string out;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte > 0x20 && byte < 0x7f && c != '"' && c != '%')
            out.push_back(c);
        else
            out += fmt::format("%{:02X}", byte);
    }
    return out;
}

std::string path_encoded(std::string_view text) {
    constexpr std::string_view as_it_is = "/-._~!$&'()*+,;=:@";  // RFC 3986: pchar
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (plain || as_it_is.find(c) != std::string_view::npos)
            out.push_back(c);
        else
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

std::string copy_key(const StagedEvent& staged) {
    std::string all;
    for (const std::string* each : {&staged.topic, &staged.event.source, &staged.event.id})
        all += fmt::format("{}:{}", each->size(), *each);
    return to_hex(sha256(all));
}

std::vector<MessageHeader> binary_headers(const Event& event, std::string_view prefix, Encoding encoding) {
    std::vector<MessageHeader> headers;
    const auto add = [&](std::string_view name, const std::string& value) {
        headers.push_back(
            {fmt::format("{}{}", prefix, name), encoding == Encoding::percent ? percent_encoded(value) : value});
    };
    add("specversion", "1.0");
    add("id", event.id);
    add("source", event.source);
    add("type", event.type);
    if (!event.subject.empty()) add("subject", event.subject);
    if (!event.time.empty()) add("time", event.time);
    if (!event.data_schema.empty()) add("dataschema", event.data_schema);
    for (const MessageHeader& each : event.extensions) add(each.name, each.value);
    return headers;
}

}  // namespace semel::outbox
