// An event as CloudEvents 1.0 in binary mode: its attributes become headers, its data the body.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "semel/message.hpp"
#include "semel/outbox.hpp"

namespace semel::outbox {

enum class Encoding : std::uint8_t {
    plain,
    percent,  ///< what cannot be in a header of HTTP or NATS as it is
};

/// `prefix` + name of every attribute but the content type, which is the message's own.
std::vector<MessageHeader> binary_headers(const Event& event, std::string_view prefix, Encoding encoding);

/// The header or field beside the event that carries its ordering key, for a consumer that keeps order by it.
inline constexpr const char* ordering_header = "ordering-key";

std::string percent_encoded(std::string_view text);
/// As the path of a URL: what is not of a path (`?`, `#`, spaces) is part of a name in it.
std::string path_encoded(std::string_view text);

/// Names one event of one topic to whoever drops copies of it: 64 hex digits of topic, source and id, for ids are unique
/// within a source only, and may be longer than what takes them.
std::string copy_key(const StagedEvent& staged);

}  // namespace semel::outbox
