// Canonical JSON that keeps every distinction a value can have: docs/formats/fingerprint.md.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/json_document.hpp"
#include "ledger/json_pointer.hpp"

namespace semel {

/// Which parts of a document count. `exclude` is applied first, then `include`.
struct JsonSelection {
    std::vector<JsonPointer> include{};  ///< empty: everything
    std::vector<JsonPointer> exclude{};
    bool operator==(const JsonSelection&) const = default;
};

/// The one spelling of what `text` says: white space, member order, escapes and the spelling of equal numbers make no
/// difference, and nothing else is lost. Members and escapes are those of RFC 8785. Two numbers are spelled alike if
/// and only if their decimal values are equal; digits that RFC 8785 would keep are laid out as it does.
///
/// Empty, so that the caller compares raw bytes: JsonDocument::parse refused the text, or a number that counts is
/// 10^(10^18) or beyond in size or smallness.
///
/// With `include` the result is an object from each pointer, as it was given, to the value there; absent ones are left
/// out. An excluded value vanishes with its member name, or from its array; if that is the whole document, the result
/// is the empty text.
///
/// Time is that of sorting the members; memory is a small multiple of the text.
std::optional<std::string> canonical_json(std::string_view text, const JsonSelection& selection = {});

/// Of one value of a document: as canonical_json of that value alone.
std::optional<std::string> canonical_json(const JsonDocument& document, JsonDocument::Index value);

}  // namespace semel
