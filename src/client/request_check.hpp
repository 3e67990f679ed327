// Whether a request can be sent as it is, before anything is remembered or sent.
#pragma once

#include <string_view>

#include "http/fields.hpp"
#include "semel/http.hpp"
#include "semel/result.hpp"

namespace semel::client {

/// The name of a header that a client may write.
Status check_key_header(std::string_view name);

/// The request as it will be sent. `invalid`: a method whose answer cannot be an outcome (HEAD, OPTIONS, CONNECT, TRACE), a URL
/// that is none, a header that only the client may write (its framing, Host, the key) or that could split a head.
Result<HttpRequest> checked_request(const HttpRequest& request, std::string_view key_header);

}  // namespace semel::client
