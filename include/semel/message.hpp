// Messages: as a broker delivers them, and as events after their envelope has been read.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "semel/result.hpp"
#include "semel/time.hpp"

namespace semel {

struct MessageHeader {
    std::string name{};
    std::string value{};
    bool operator==(const MessageHeader&) const = default;
};

/// Whose rules say how an envelope is spread over a message: CloudEvents has a binding for each.
enum class Binding : std::uint8_t {
    kafka = 1,     ///< attributes in headers `ce_…`, content type in the header `content-type`
    rabbitmq = 2,  ///< AMQP: attributes in headers `cloudEvents:…` or `cloudEvents_…`, content type a property
    nats = 3,      ///< attributes in headers `ce-…`, content type in the header `content-type` (any letter case)
    redis = 4,  ///< attributes in fields `ce-…`, content type in the field `content-type`, data in the field `data`
};
std::string_view name(Binding binding);

/// A message as a broker delivered it.
struct Message {
    Binding binding = Binding::kafka;
    std::string topic{};  ///< topic, queue, subject or stream
    std::string
        ordering_key{};  ///< messages with the same one are handled in their order; empty: no order is asked for
    std::string content_type{};
    std::vector<MessageHeader> headers{};  ///< without the content type
    std::string body{};
    /// Where the broker keeps it, the same on every delivery, such as `orders/3@1042`. Empty where there is no such thing
    /// (RabbitMQ).
    std::string position{};
    std::optional<TimePoint> published{};
    std::uint32_t deliveries = 1;  ///< this one included, as far as the broker tells
    bool operator==(const Message&) const = default;

    [[nodiscard]] const std::string* header(std::string_view name) const;  ///< the first of that name, as it is written
};

/// What a message says: CloudEvents 1.0, or JSON with a pointer to its id.
struct Event {
    std::string id{};
    std::string source{};
    std::string type{};
    std::string subject{};
    std::string time{};
    std::string data_content_type{};
    std::string data_schema{};
    std::vector<MessageHeader> extensions{};  ///< by their names in lower case, without prefix
    std::string data{};                       ///< the bytes; of structured JSON data its text as it was sent
    bool operator==(const Event&) const = default;

    [[nodiscard]] const std::string* extension(std::string_view name) const;
};

}  // namespace semel
