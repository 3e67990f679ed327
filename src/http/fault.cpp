#include "http/fault.hpp"

#include <array>

#include "base/assert.hpp"

namespace semel::http {
namespace {

struct Row {
    Fault fault;
    int status;
    std::string_view name;
    std::string_view message;
};

constexpr std::array<Row, faults> rows{{
    {Fault::none, 200, "none", "nothing is wrong"},
    {Fault::leading_bytes, 400, "leading_bytes", "an empty line or white space stands before the message"},
    {Fault::bare_lf, 400, "bare_lf", "a line ends in LF without CR"},
    {Fault::bare_cr, 400, "bare_cr", "a CR stands without LF"},
    {Fault::control_character, 400, "control_character", "a control character stands in the head"},
    {Fault::head_too_large, 431, "head_too_large", "the head is larger than allowed"},
    {Fault::request_line_invalid, 400, "request_line_invalid",
     "the request line is not 'METHOD target HTTP/1.1' with single spaces"},
    {Fault::method_invalid, 400, "method_invalid", "the method is not a token"},
    {Fault::method_case, 400, "method_case", "a standard method is written in upper case"},
    {Fault::method_too_long, 501, "method_too_long", "no method is that long"},
    {Fault::target_invalid, 400, "target_invalid", "the request target holds a byte that must be percent-encoded"},
    {Fault::target_fragment, 400, "target_fragment", "the request target holds a fragment"},
    {Fault::target_form, 400, "target_form",
     "the request target is neither a path, nor an http URL, nor the form its method asks for"},
    {Fault::target_percent, 400, "target_percent", "the path holds an incomplete percent-encoding or %00"},
    {Fault::target_too_long, 414, "target_too_long", "the request target is longer than allowed"},
    {Fault::version_invalid, 400, "version_invalid", "the HTTP version is malformed"},
    {Fault::version_unsupported, 505, "version_unsupported", "only HTTP/1.1 and HTTP/1.0 are spoken here"},
    {Fault::status_line_invalid, 400, "status_line_invalid", "the status line is not 'HTTP/1.1 NNN reason'"},
    {Fault::field_folded, 400, "field_folded", "a header line begins with white space"},
    {Fault::field_without_colon, 400, "field_without_colon", "a header line has no colon"},
    {Fault::field_name_empty, 400, "field_name_empty", "a header has no name"},
    {Fault::field_name_space, 400, "field_name_space", "white space stands between a header's name and its colon"},
    {Fault::field_name_invalid, 400, "field_name_invalid", "a header's name is not a token"},
    {Fault::field_name_lookalike, 400, "field_name_lookalike",
     "a header's name is Content-Length or Transfer-Encoding spelt with underscores"},
    {Fault::field_too_long, 431, "field_too_long", "a header is longer than allowed"},
    {Fault::fields_too_many, 431, "fields_too_many", "there are more headers than allowed"},
    {Fault::length_invalid, 400, "length_invalid", "Content-Length is not one decimal number in range"},
    {Fault::length_repeated, 400, "length_repeated", "Content-Length stands there twice"},
    {Fault::encoding_invalid, 400, "encoding_invalid", "Transfer-Encoding is not exactly 'chunked'"},
    {Fault::encoding_repeated, 400, "encoding_repeated", "Transfer-Encoding stands there twice"},
    {Fault::encoding_in_http_1_0, 400, "encoding_in_http_1_0", "HTTP/1.0 has no Transfer-Encoding"},
    {Fault::length_and_encoding, 400, "length_and_encoding", "both Content-Length and Transfer-Encoding are given"},
    {Fault::body_not_allowed, 400, "body_not_allowed", "this message must not announce a body"},
    {Fault::host_missing, 400, "host_missing", "HTTP/1.1 asks for a Host header"},
    {Fault::host_repeated, 400, "host_repeated", "Host stands there twice"},
    {Fault::host_invalid, 400, "host_invalid", "Host is not a host name or address with an optional port"},
    {Fault::host_differs, 400, "host_differs", "the request target names another host than Host does"},
    {Fault::expectation_unknown, 417, "expectation_unknown", "the only expectation known is 100-continue"},
    {Fault::connection_invalid, 400, "connection_invalid",
     "Connection is not a short list of tokens, or names a header that is meant for all recipients"},
    {Fault::chunk_size_invalid, 400, "chunk_size_invalid", "a chunk size is not 1 to 16 hex digits in range"},
    {Fault::chunk_extension, 400, "chunk_extension", "chunk extensions are not accepted"},
    {Fault::chunk_end_invalid, 400, "chunk_end_invalid", "a chunk is not followed by CRLF"},
    {Fault::trailers_refused, 400, "trailers_refused", "trailers are not accepted"},
    {Fault::trailer_forbidden, 400, "trailer_forbidden", "a trailer has a name that may only stand in the head"},
    {Fault::trailers_too_large, 431, "trailers_too_large", "the trailers are larger than allowed"},
    {Fault::body_too_large, 413, "body_too_large", "the body is larger than allowed"},
    {Fault::body_cut_short, 400, "body_cut_short", "the connection ended before the message did"},
    {Fault::value_not_writable, 500, "value_not_writable", "a value to be written holds a control character"},
    {Fault::field_not_writable, 500, "field_not_writable",
     "a field to be written has no valid name, or one that only the writer itself may write"},
}};

constexpr bool in_order() {
    for (std::size_t i = 0; i < rows.size(); ++i)
        if (static_cast<std::size_t>(rows[i].fault) != i) return false;
    return true;
}
static_assert(in_order(), "one row per fault, in the order of the enum");

const Row& row(Fault fault) {
    const auto index = static_cast<std::size_t>(fault);
    SEMEL_ASSERT(index < rows.size(), "a fault without a row");
    return rows[index];
}

}  // namespace

std::string_view name(Fault fault) { return row(fault).name; }
std::string_view message(Fault fault) { return row(fault).message; }
int status(Fault fault) { return row(fault).status; }

}  // namespace semel::http
