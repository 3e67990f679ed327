// An intent as the journal writes it: docs/formats/intent.md.
#pragma once

#include <string>
#include <string_view>

#include "semel/client.hpp"

namespace semel::client {

/// `record.outcome`, if there is one, is Succeeded, NotRetained or Refused.
std::string to_text(const IntentRecord& record);

/// `corrupt` says what is wrong with the text: it is read as it was written, or not at all.
Result<IntentRecord> intent_from_text(std::string_view text);

}  // namespace semel::client
