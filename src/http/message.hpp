// What requests and responses have in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "http/fault.hpp"

namespace semel::http {

enum class Version : std::uint8_t { http_1_0, http_1_1 };

/// Standard methods by name; anything else that is a token is `other`. Methods are case-sensitive.
enum class Method : std::uint8_t { get, head, post, put, patch, remove /*DELETE*/, options, connect, trace, other };
Method method_of(std::string_view text);

/// Which of the two a head belongs to.
enum class Side : std::uint8_t { request, response };

/// Where a reader stands after the bytes it was fed.
enum class Progress : std::uint8_t {
    more,     ///< Feed more bytes.
    done,     ///< Complete. Bytes after `used` belong to what comes next.
    refused,  ///< Never acceptable: fault() says why. Answer, then close; nothing after this can be trusted.
};

struct Step {
    Progress progress;
    std::size_t used;  ///< how many of the bytes fed were consumed
};

/// How long a body is. A message has exactly one of these.
struct Framing {
    enum class Kind : std::uint8_t { none, length, chunked, until_close };
    Kind kind = Kind::none;
    std::uint64_t length = 0;  ///< with Kind::length

    static constexpr Framing none() { return {}; }
    static constexpr Framing of_length(std::uint64_t bytes) { return {Kind::length, bytes}; }
    static constexpr Framing chunked() { return {Kind::chunked, 0}; }
    static constexpr Framing until_close() { return {Kind::until_close, 0}; }
    /// Whether not a single byte of body follows.
    [[nodiscard]] constexpr bool empty() const { return kind == Kind::none || (kind == Kind::length && length == 0); }
    friend bool operator==(const Framing&, const Framing&) = default;
};

/// What a head may hold. A byte more is refused.
struct HeadLimits {
    std::size_t head_bytes_max = 32 * 1024;   ///< all of it, the empty line at its end included
    std::size_t target_bytes_max = 8 * 1024;  ///< of the request target, or of a response's reason
    std::size_t field_bytes_max = 8 * 1024;   ///< one header line without its CRLF
    std::size_t fields_max = 100;
};

/// Exactly HTTP/1.1 or HTTP/1.0; another digit.digit is version_unsupported.
Fault read_version(std::string_view text, Version& version);

inline constexpr std::size_t method_bytes_max = 32;

/// The larger heads that services are known to answer with.
inline constexpr HeadLimits response_limits{
    .head_bytes_max = 64 * 1024, .target_bytes_max = 1024, .field_bytes_max = 32 * 1024, .fields_max = 200};

}  // namespace semel::http
