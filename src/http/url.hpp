// Where requests go: an http or https URL, split.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "semel/result.hpp"

namespace semel::http {

struct Url {
    bool tls = false;
    std::string host;       ///< a name or an address, without brackets
    std::string port;       ///< in digits; the scheme's own if none was written
    std::string authority;  ///< as the Host header says it
    std::string target;     ///< path and query, as the request line says them

    /// `invalid`: not http:// or https:// with a host, or with a user name, a fragment or bytes that no URL has. The
    /// message never quotes a URL that may hold a password, and no query, which may be one.
    static Result<Url> parse(std::string_view text);

    [[nodiscard]] std::string text() const { return (tls ? "https://" : "http://") + authority + target; }
};

}  // namespace semel::http
