// Fingerprints: what a request said, so that a reused key with another request is noticed (I7).
//
// Version 1 compares what a client's retry keeps and lets vary what it may not: docs/formats/fingerprint.md.
// - method, path and query count byte for byte, as they came; `/x?` and `/x` are one.
// - content type: the media type in lower case, without its parameters. A retry may come through another SDK or after
//   an upgrade and then says `charset=utf-8` or not; that with the same key and the same body another request was
//   meant does not happen. (A multipart body carries its boundary inside, and counts with it.)
// - If-Match counts byte for byte; absent and empty are one.
// - body: canonical JSON where the media type is application/json or ends in +json and canonical_json accepts it; raw
//   bytes otherwise. A byte tells the two apart.
#pragma once

#include <string_view>

#include "semel/operation.hpp"

namespace semel {

/// A request as far as it counts. Refers to the caller's text.
struct Request {
    std::string_view method{};
    std::string_view path{};          ///< as received, still percent-encoded
    std::string_view query{};         ///< without the '?'
    std::string_view content_type{};  ///< with or without parameters
    std::string_view if_match{};
    std::string_view body{};
};

Fingerprint fingerprint_of(const Request& request);

/// Of a message: its type and its data, byte for byte (a broker delivers the same bytes again).
Fingerprint fingerprint_of_message(std::string_view type, std::string_view data);

/// Of anything else, byte for byte.
Fingerprint fingerprint_of_bytes(std::string_view bytes);

}  // namespace semel
