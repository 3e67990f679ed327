// A message as it is kept on the shelf and among the dead letters. docs/formats/message.md has the bytes.
#pragma once

#include <string>
#include <string_view>

#include "semel/message.hpp"

namespace semel {

std::string encode_message(const Message& message);

/// `corrupt` if these are not the bytes that encode_message wrote.
Result<Message> decode_message(std::string_view bytes);

}  // namespace semel
