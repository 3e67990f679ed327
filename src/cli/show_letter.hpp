// What is known about a dead letter, for people and for programs. A message is a customer's: its body is shown only to those
// who ask for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "consumers/dead_letters.hpp"

namespace semel::cli {

/// Whether a terminal may be given these bytes as they are: UTF-8 without control characters but tab and newline.
bool is_text(std::string_view bytes);

/// As it is if it is text, otherwise in hex, 32 bytes on a line. Ends with a newline.
std::string body_text(std::string_view body);

/// One line each.
std::string letter_table(const std::vector<DeadLetter>& letters, TimePoint now);

/// Everything but the body, with what can be done about it; `store` is named in commands to copy.
std::string letter_detail(const DeadLetter& letter, TimePoint now, const std::string& store);

enum class LetterParts { summary, headers, headers_and_body };
/// One JSON object. The body is `body_text` or, if it is no text, `body_hex`.
void write_letter(JsonWriter& json, const DeadLetter& letter, LetterParts parts);

/// What to do about letters that died of this; a sentence or two. Empty for a reason that this program does not know.
std::string_view what_to_do(std::string_view reason);

}  // namespace semel::cli
