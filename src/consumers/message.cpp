#include "semel/message.hpp"

#include <algorithm>

namespace semel {
namespace {

const std::string* value_of(const std::vector<MessageHeader>& headers, std::string_view name) {
    const auto at = std::ranges::find(headers, name, &MessageHeader::name);
    return at == headers.end() ? nullptr : &at->value;
}

}  // namespace

std::string_view name(Binding binding) {
    switch (binding) {
        case Binding::kafka: return "kafka";
        case Binding::rabbitmq: return "rabbitmq";
        case Binding::nats: return "nats";
        case Binding::redis: return "redis";
    }
    return "unknown";
}

const std::string* Message::header(std::string_view name) const { return value_of(headers, name); }
const std::string* Event::extension(std::string_view name) const { return value_of(extensions, name); }

}  // namespace semel
