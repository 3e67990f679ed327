// Request targets (RFC 9112 3.2), split but never decoded.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "http/fault.hpp"
#include "http/message.hpp"

namespace semel::http {

enum class TargetForm : std::uint8_t {
    origin,     ///< /path?query
    absolute,   ///< http://host/path?query
    authority,  ///< host:port, of CONNECT
    asterisk,   ///< *, of OPTIONS
};

struct Target {
    TargetForm form = TargetForm::origin;
    std::string_view authority;  ///< of the absolute and authority forms
    std::string_view path;       ///< "/" where an absolute form has none, "*" of the asterisk form, empty of CONNECT
    std::string_view query;      ///< without its '?'
    bool has_query = false;      ///< `/a?` has an empty query, `/a` has none
};

/// Reads a target of that method. Refused: bytes that are not visible ASCII, fragments, backslashes and incomplete
/// percent-encodings and %00 in the path, schemes but http and https, user names, and forms that the method may not use.
Fault read_target(std::string_view text, Method method, Target& target);

/// The target in origin form (or `*`), as an upstream is asked.
std::string origin_form(const Target& target);

/// Whether a path can be understood in one way only: no empty segment but the last, no `.` or `..`, encoded or not, no
/// encoded slash or backslash, nothing encoded that needs no encoding. A router that matches other paths as they are
/// written may be passed by an upstream that normalises them.
bool is_plain_path(std::string_view path);

}  // namespace semel::http
