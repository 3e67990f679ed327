#include "consumers/rabbitmq/delivered_message.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string_view>

namespace semel::rabbitmq {
namespace {

std::string_view text_of(amqp_bytes_t bytes) { return {static_cast<const char*>(bytes.bytes), bytes.len}; }

std::optional<std::int64_t> integer_of(const amqp_field_value_t& field) {
    switch (field.kind) {
        case AMQP_FIELD_KIND_I8: return field.value.i8;
        case AMQP_FIELD_KIND_U8: return field.value.u8;
        case AMQP_FIELD_KIND_I16: return field.value.i16;
        case AMQP_FIELD_KIND_U16: return field.value.u16;
        case AMQP_FIELD_KIND_I32: return field.value.i32;
        case AMQP_FIELD_KIND_U32: return field.value.u32;
        case AMQP_FIELD_KIND_I64: return field.value.i64;
        default: return std::nullopt;
    }
}

std::optional<std::string> value_of(const amqp_field_value_t& field) {
    if (const auto number = integer_of(field)) return std::to_string(*number);
    switch (field.kind) {
        case AMQP_FIELD_KIND_UTF8:
        case AMQP_FIELD_KIND_BYTES: return std::string(text_of(field.value.bytes));
        case AMQP_FIELD_KIND_BOOLEAN: return field.value.boolean != 0 ? "true" : "false";
        case AMQP_FIELD_KIND_U64:
        case AMQP_FIELD_KIND_TIMESTAMP: return std::to_string(field.value.u64);
        case AMQP_FIELD_KIND_F32: return fmt::format("{}", field.value.f32);
        case AMQP_FIELD_KIND_F64: return fmt::format("{}", field.value.f64);
        case AMQP_FIELD_KIND_DECIMAL:
            return fmt::format("{}e-{}", static_cast<std::int32_t>(field.value.decimal.value),
                               field.value.decimal.decimals);
        case AMQP_FIELD_KIND_VOID: return std::string();
        default: return std::nullopt;
    }
}

void add_property(Message& message, std::string_view name, amqp_bytes_t value) {
    message.headers.push_back({std::string(name), std::string(text_of(value))});
}

void add_table(Message& message, const amqp_table_t& table) {
    for (int i = 0; i < table.num_entries; ++i) {
        const amqp_table_entry_t& entry = table.entries[i];
        const std::string_view name = text_of(entry.key);
        if (name == "x-delivery-count") {
            if (const auto count = integer_of(entry.value); count && *count >= 0 && *count < 1'000'000'000)
                message.deliveries = static_cast<std::uint32_t>(*count) + 1;
            continue;
        }
        if (auto value = value_of(entry.value)) message.headers.push_back({std::string(name), *std::move(value)});
    }
}

}  // namespace

Message message_of(const amqp_basic_properties_t& properties, bool redelivered, const std::string& ordering_header) {
    Message message;
    message.binding = Binding::rabbitmq;
    message.deliveries = redelivered ? 2 : 1;
    const auto has = [&](amqp_flags_t flag) { return (properties._flags & flag) != 0; };
    if (has(AMQP_BASIC_CONTENT_TYPE_FLAG)) message.content_type = text_of(properties.content_type);
    if (has(AMQP_BASIC_MESSAGE_ID_FLAG)) add_property(message, "message-id", properties.message_id);
    if (has(AMQP_BASIC_TYPE_FLAG)) add_property(message, "type", properties.type);
    if (has(AMQP_BASIC_CORRELATION_ID_FLAG)) add_property(message, "correlation-id", properties.correlation_id);
    if (has(AMQP_BASIC_APP_ID_FLAG)) add_property(message, "app-id", properties.app_id);
    if (has(AMQP_BASIC_HEADERS_FLAG)) add_table(message, properties.headers);
    // Seconds, of the publisher's clock, and whatever it wrote: not everything fits.
    constexpr auto seconds_max = std::numeric_limits<std::int64_t>::max() / 1'000'000;
    if (has(AMQP_BASIC_TIMESTAMP_FLAG) && properties.timestamp <= static_cast<std::uint64_t>(seconds_max))
        message.published = time_from_micros(static_cast<std::int64_t>(properties.timestamp) * 1'000'000);
    if (!ordering_header.empty())
        if (const std::string* value = message.header(ordering_header)) message.ordering_key = *value;
    return message;
}

}  // namespace semel::rabbitmq
