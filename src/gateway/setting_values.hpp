// Kinds of values that several sections of the configuration have.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gateway/setting.hpp"
#include "ledger/json_pointer.hpp"

namespace semel::gateway {

inline constexpr std::size_t secret_bytes_min = 16;
inline constexpr std::size_t webhook_secret_bytes_min = 8;

/// The name of a header of requests that may be read from: a token, not one that ends at this hop, frames the message
/// or is Semel's own.
std::optional<std::string> read_request_header(const Setting& setting);
/// Any name of a header.
std::optional<std::string> read_header_name(const Setting& setting);

/// A JSON pointer to a part of a document.
std::optional<JsonPointer> read_pointer(const Setting& setting);
std::vector<JsonPointer> read_pointers(const Setting& setting);

/// Never shown in a message, nor how long it is.
std::optional<std::string> read_secret(const Setting& setting, std::size_t bytes_min);
/// `secret`, then those of `previous_secrets`; empty without them.
std::vector<std::string> read_secrets(const Mapping& in, std::size_t bytes_min);
/// Whether one is in the list twice, which is a problem of that setting.
void refuse_twice(const Mapping& in, std::string_view name, const std::vector<std::string>& values);

/// `http://…`, a list of them, or a mapping.
std::optional<Upstream> read_upstream(const Setting& setting);

}  // namespace semel::gateway
