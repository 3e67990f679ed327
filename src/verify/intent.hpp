// An intent is one thing that a client wants done once: it has a key, and every try of it sends the same bytes. Templates
// of requests and of counting are filled in per intent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "semel/operation.hpp"
#include "semel/result.hpp"

namespace semel::verify {

struct Intent {
    std::string key;
    std::string uuid;          ///< another one than the key's
    std::uint64_t number = 0;  ///< from 1 up within one run
};

/// A new intent with a key of that format.
Intent make_intent(std::uint64_t number, KeyFormat format);

/// Replaces {{key}}, {{uuid}} and {{n}}; the same intent gives the same text.
std::string fill_in(std::string_view text, const Intent& intent);

/// Whether the text differs from intent to intent.
bool has_placeholder(std::string_view text);

/// `invalid`: a {{word}} that is no placeholder. `name` is the option the text came from.
Status check_placeholders(std::string_view name, std::string_view text);

/// Another body that a service is likely to accept as well as this one: the first number of a JSON document, or the first
/// whole number in a form, is one larger. Nothing: there is no such number.
std::optional<std::string> another_body(std::string_view body, std::string_view content_type);

}  // namespace semel::verify
