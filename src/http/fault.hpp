// Why a message was refused. Every reader of this module answers with one of these, and so does the writer.
#pragma once

#include <cstdint>
#include <string_view>

namespace semel::http {

enum class Fault : std::uint8_t {
    none,
    // the lines of a head
    leading_bytes,
    bare_lf,
    bare_cr,
    control_character,
    head_too_large,
    // the request line
    request_line_invalid,
    method_invalid,
    method_case,
    method_too_long,
    target_invalid,
    target_fragment,
    target_form,
    target_percent,
    target_too_long,
    version_invalid,
    version_unsupported,
    // the status line
    status_line_invalid,
    // fields
    field_folded,
    field_without_colon,
    field_name_empty,
    field_name_space,
    field_name_invalid,
    field_name_lookalike,
    field_too_long,
    fields_too_many,
    // framing
    length_invalid,
    length_repeated,
    encoding_invalid,
    encoding_repeated,
    encoding_in_http_1_0,
    length_and_encoding,
    body_not_allowed,
    // fields that this hop has to understand
    host_missing,
    host_repeated,
    host_invalid,
    host_differs,
    expectation_unknown,
    connection_invalid,
    // bodies
    chunk_size_invalid,
    chunk_extension,
    chunk_end_invalid,
    trailers_refused,
    trailer_forbidden,
    trailers_too_large,
    body_too_large,
    body_cut_short,
    // writing
    value_not_writable,
    field_not_writable,
};

inline constexpr int faults = static_cast<int>(Fault::field_not_writable) + 1;

/// The name as it is written in logs, metrics and test vectors: "bare_lf".
std::string_view name(Fault fault);

/// One sentence for whoever sent it. Never quotes what was sent.
std::string_view message(Fault fault);

/// The status to answer a *request* with: 400, 413, 414, 417, 431, 501 or 505, and 500 for what only the writer says.
/// A response refused for any reason is the upstream's fault: 502.
int status(Fault fault);

}  // namespace semel::http
