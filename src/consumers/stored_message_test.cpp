#include "consumers/stored_message.hpp"

#include <gtest/gtest.h>

namespace semel {
namespace {

Message some_message() {
    Message message;
    message.binding = Binding::nats;
    message.topic = "orders";
    message.ordering_key = std::string("k\0y", 3);
    message.content_type = "application/json";
    message.headers = {{"ce-id", "1"}, {"", "empty name"}, {"twice", "a"}, {"twice", "b"}};
    message.body = std::string("\x00\xff{}", 4);
    message.position = "orders@7";
    message.published = time_from_micros(1'700'000'000'123'456);
    message.deliveries = 3;
    return message;
}

TEST(StoredMessage, ComesBackAsItWas) {
    for (Message message : {some_message(), Message{}}) {
        const auto read = decode_message(encode_message(message));
        ASSERT_TRUE(read.ok());
        EXPECT_EQ(*read, message);
    }
}

TEST(StoredMessage, CutShortOrOfAnotherFormatIsCorrupt) {
    const std::string whole = encode_message(some_message());
    for (std::size_t length = 0; length < whole.size(); ++length) {
        const auto read = decode_message(std::string_view(whole).substr(0, length));
        ASSERT_FALSE(read.ok()) << length;
        EXPECT_EQ(read.failure().code, Code::corrupt);
    }
    EXPECT_FALSE(decode_message(whole + "x").ok());
    EXPECT_FALSE(decode_message('\2' + whole.substr(1)).ok());
}

}  // namespace
}  // namespace semel
