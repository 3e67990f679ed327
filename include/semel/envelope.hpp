// Reads what a message says: the envelope around its data. Pure.
//
// CloudEvents 1.0, by the binding of the broker that delivered the message:
//   structured   content type application/cloudevents+json: everything is in the body. On NATS also without any content
//                type, as its binding was before it had headers.
//   binary       an attribute `specversion` among the headers: attributes are headers, the body is the data. On NATS values
//                are percent-encoded, as in HTTP.
// Or any JSON, with pointers to its id and more.
//
// What is not plainly an event is refused, with a reason for whoever looks into the dead letters: it tells names, places and
// lengths, not what the message holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "semel/message.hpp"

namespace semel {

enum class EnvelopeKind : std::uint8_t { cloudevents, json };
std::string_view name(EnvelopeKind kind);

struct EnvelopeOptions {
    EnvelopeKind kind = EnvelopeKind::cloudevents;

    // Of `json`: JSON pointers (RFC 6901) to a text or a whole number. The data is the whole body.
    std::string id_pointer{};       ///< has to be given; a message without it is refused
    std::string type_pointer{};     ///< a message without it is refused; empty: `type` says it for all messages
    std::string type{};             ///< may be empty
    std::string source_pointer{};   ///< a message without it is refused; empty: `source` says it for all messages
    std::string source{};           ///< may be empty: ids are unique among all messages of the group
    std::string subject_pointer{};  ///< not every message has to have it; empty: no subject
    std::string time_pointer{};     ///< likewise

    // More than that is refused.
    std::size_t body_bytes_max = 1U << 20;
    std::size_t id_bytes_max = 1024;
    std::size_t attribute_bytes_max = 4096;  ///< of any other attribute
    std::size_t attributes_max = 64;         ///< of CloudEvents, extensions included

    bool operator==(const EnvelopeOptions&) const = default;
};

/// Whether messages can be read like this; `invalid` names the option that is wrong.
Status check(const EnvelopeOptions& options);

/// The event. Its id is valid UTF-8 of 1 to id_bytes_max bytes; all its attributes are valid UTF-8 without control
/// characters. Of CloudEvents source and type are not empty, and names of extensions are of a–z and 0–9.
/// `invalid` says why it is none; reading the same message again gives the same.
Result<Event> read_envelope(const Message& message, const EnvelopeOptions& options);

/// Whether data of this content type is JSON: `*/json` or `*/*+json`, whatever the parameters. Empty text is not.
bool is_json(std::string_view content_type);

}  // namespace semel
