// A strict JSON reader that loses nothing: numbers stay as they were spelled, and what two readers could understand
// differently (duplicate names, lone surrogates, bad UTF-8) is refused instead of guessed.
//
// The document is a flat list of nodes in reading order, so a hostile body costs a fixed number of bytes per value and
// no deep recursion. It exists because simdjson's DOM narrows numbers to 64 bits and neither of its interfaces refuses
// duplicate names or lone surrogates; simdjson is used where it is strict, to check UTF-8.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ledger/json_pointer.hpp"

namespace semel {

class JsonDocument {
public:
    /// How deep arrays and objects may nest.
    static constexpr std::size_t depth_max = 128;

    enum class Kind : std::uint8_t { literal, number, string, array, object };
    using Index = std::uint32_t;

    struct Node {
        std::string_view text;  ///< literal: null, true, false; number: as spelled; string: unescaped
        Index end = 0;          ///< one past the node's last descendant
        Index members = 0;      ///< object: where its members begin in the list of members
        Index count = 0;        ///< object: how many; array: how many elements
        Kind kind = Kind::literal;
    };

    /// Empty when `text` is not one JSON value (RFC 8259) in valid UTF-8, or has a name twice in one object, a lone
    /// surrogate, or nests deeper than depth_max. The result refers to `text`, which must outlive it.
    static std::optional<JsonDocument> parse(std::string_view text);

    // Movable only: nodes refer to the unescaped text, which moves along but would not be copied along.
    JsonDocument(JsonDocument&&) = default;
    JsonDocument& operator=(JsonDocument&&) = default;

    /// Node 0 is the whole document. An array's elements follow it: the first at index + 1, the next at that one's
    /// `end`.
    [[nodiscard]] const Node& node(Index index) const { return nodes_[index]; }
    /// An object's members as the indices of their names, in the order of RFC 8785; each value is at name + 1.
    [[nodiscard]] std::span<const Index> members(const Node& object) const {
        return std::span(members_).subspan(object.members, object.count);
    }
    /// The value at `pointer`, or nothing.
    [[nodiscard]] std::optional<Index> find(const JsonPointer& pointer) const;

private:
    friend class JsonReader;
    JsonDocument() = default;
    std::vector<Node> nodes_;
    std::vector<Index> members_;
    std::vector<char> unescaped_;  // of strings that were written with escapes; reserved once, so that views stay valid
};

/// RFC 8785's order of member names: by UTF-16 code units. Both are valid UTF-8.
bool utf16_less(std::string_view left, std::string_view right);

}  // namespace semel
