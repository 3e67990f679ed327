// The Idempotency-Key header: a Structured Field string by the draft, bare in the wild. Both spellings name one key.
#pragma once

#include <string>
#include <string_view>

#include "semel/operation.hpp"

namespace semel {

/// Reads one field value (spaces and tabs around it are dropped):
/// - quoted, `"8e03…"`: a Structured Field string (RFC 9651): 0x20–0x7E, where `\"` and `\\` stand for quote and
///   backslash;
/// - bare, `8e03…`: 0x21–0x7E without quote, comma, semicolon and backslash.
/// Parameters, lists and anything else are `invalid`, as is a key that is not of `format`. Two header lines must be
/// joined with a comma, or refused, by the caller: they are a list, not a key.
Result<Key> key_from_header(std::string_view value, KeyFormat format = KeyFormat::any);

/// The value that names this key, as a Structured Field string: any key can be written so.
std::string key_to_header(const Key& key);

}  // namespace semel
