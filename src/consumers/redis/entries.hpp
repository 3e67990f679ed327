// Stream entries as Redis replies with them, and the messages they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "consumers/redis/wire.hpp"
#include "semel/message.hpp"

namespace semel::redis {

struct Entry {
    std::string id{};
    bool trimmed = false;  ///< somebody was to handle it, and it is in the stream no more
    std::uint32_t deliveries = 1;
    std::vector<MessageHeader> fields{};
};

/// The reply's array of [id, [name, value, …] or nil]. What is no such thing is left out.
std::vector<Entry> read_entries(const redisReply& entries);

/// Field `data` becomes the body, `content-type` the content type, the others are headers.
Message to_message(Entry entry, const std::string& stream, const std::string& ordering_field);

}  // namespace semel::redis
