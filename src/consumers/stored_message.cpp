#include "consumers/stored_message.hpp"

#include "base/bytes.hpp"

namespace semel {
namespace {

constexpr std::uint8_t format_version = 1;

}  // namespace

std::string encode_message(const Message& message) {
    ByteWriter out;
    out.u8(format_version);
    out.u8(static_cast<std::uint8_t>(message.binding));
    out.counted(message.topic);
    out.counted(message.ordering_key);
    out.counted(message.content_type);
    out.counted(message.position);
    out.u8(message.published ? 1 : 0);
    if (message.published) out.be64(static_cast<std::uint64_t>(micros(*message.published)));
    out.varint(message.deliveries);
    out.varint(message.headers.size());
    for (const MessageHeader& header : message.headers) {
        out.counted(header.name);
        out.counted(header.value);
    }
    out.counted(message.body);
    return out.take();
}

Result<Message> decode_message(std::string_view bytes) {
    const Failure corrupt{Code::corrupt, "a stored message cannot be read (see docs/formats/message.md)"};
    ByteReader in(bytes);
    if (in.u8() != format_version) return corrupt;
    Message message;
    const std::uint8_t binding = in.u8();
    if (binding < 1 || binding > 4) return corrupt;
    message.binding = static_cast<Binding>(binding);
    message.topic = in.counted();
    message.ordering_key = in.counted();
    message.content_type = in.counted();
    message.position = in.counted();
    if (in.u8() == 1) message.published = time_from_micros(static_cast<std::int64_t>(in.be64()));
    message.deliveries = static_cast<std::uint32_t>(in.varint());
    const std::uint64_t headers = in.varint();
    for (std::uint64_t i = 0; i < headers && in.ok(); ++i) {
        MessageHeader header;
        header.name = in.counted();
        header.value = in.counted();
        message.headers.push_back(std::move(header));
    }
    message.body = in.counted();
    if (!in.ok() || !in.at_end()) return corrupt;
    return message;
}

}  // namespace semel
