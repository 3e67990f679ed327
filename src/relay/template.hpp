// Texts with places for what an event says: of a URL, a header or a body.
//
//   {id} {source} {type} {subject} {time}   attributes of the event; empty where it has none
//   {key}                                   the key of the delivery, a UUID
//   {correlation}                           its correlation id
//   {data}                                  all of its data (bodies only)
//   {/order/number}                         a JSON pointer into its data, which has to be JSON with something there
//
// A brace that does not begin such a place is itself, so that JSON can be written as it is. What is filled in cannot leave
// its place: it is percent-encoded in URLs, checked in headers and escaped in JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/json_document.hpp"
#include "ledger/json_pointer.hpp"
#include "semel/message.hpp"

namespace semel::relay {

class Template {
public:
    enum class Of : std::uint8_t {
        url,     ///< places behind the host only; filled in percent-encoded, never empty, `.` or `..` in a path
        header,  ///< filled in as it is; `invalid` if it is not printable ASCII
        json,    ///< inside quotes: text, escaped. Outside: a JSON value. The result has to be JSON
    };

    static constexpr std::size_t bytes_max = 1U << 16;

    /// `invalid` for a place that nothing is known about, or that cannot be there.
    static Result<Template> parse(std::string_view text, Of of);

    /// What the places stand for. Refers to the caller's values.
    struct Values {
        const Event& event;
        std::string_view key;
        std::string_view correlation;
        const JsonDocument* data = nullptr;  ///< of the event; nullptr: its data is no JSON
    };
    /// The text with everything filled in; `invalid` says which place the event has nothing for that could stand there.
    [[nodiscard]] Result<std::string> filled(const Values& values) const;

    [[nodiscard]] bool has_places() const { return !places_.empty(); }

private:
    struct Place {
        std::size_t at = 0;  ///< in text_
        std::string name{};  ///< as it is written, without braces
        std::optional<JsonPointer> pointer{};
        bool quoted = false;   ///< of json: inside quotes
        bool in_path = false;  ///< of url
    };
    explicit Template(Of of) : of_(of) {}
    [[nodiscard]] Result<std::string> value_of(const Place& place, const Values& values) const;

    Of of_;
    std::string text_{};  ///< without the places
    std::vector<Place> places_{};
};

}  // namespace semel::relay
