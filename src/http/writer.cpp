#include "http/writer.hpp"

#include <array>
#include <charconv>

#include "http/target.hpp"

namespace semel::http {
namespace {

bool is_framing(std::string_view name) {
    return (name.size() == 14 && same_variable(name, "content-length")) ||
           (name.size() == 17 && same_variable(name, "transfer-encoding"));
}

struct Number {
    std::array<char, 20> digits{};
    std::size_t size = 0;
    explicit Number(std::uint64_t value, int base = 10) {
        const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, base);
        size = static_cast<std::size_t>(end.ptr - digits.data());
    }
    [[nodiscard]] std::string_view text() const { return {digits.data(), size}; }
};

}  // namespace

std::string_view reason_of(int status) {
    switch (status) {
        case 100: return "Continue";
        case 101: return "Switching Protocols";
        case 200: return "OK";
        case 201: return "Created";
        case 202: return "Accepted";
        case 203: return "Non-Authoritative Information";
        case 204: return "No Content";
        case 205: return "Reset Content";
        case 206: return "Partial Content";
        case 207: return "Multi-Status";
        case 300: return "Multiple Choices";
        case 301: return "Moved Permanently";
        case 302: return "Found";
        case 303: return "See Other";
        case 304: return "Not Modified";
        case 307: return "Temporary Redirect";
        case 308: return "Permanent Redirect";
        case 400: return "Bad Request";
        case 401: return "Unauthorized";
        case 402: return "Payment Required";
        case 403: return "Forbidden";
        case 404: return "Not Found";
        case 405: return "Method Not Allowed";
        case 406: return "Not Acceptable";
        case 408: return "Request Timeout";
        case 409: return "Conflict";
        case 410: return "Gone";
        case 411: return "Length Required";
        case 412: return "Precondition Failed";
        case 413: return "Content Too Large";
        case 414: return "URI Too Long";
        case 415: return "Unsupported Media Type";
        case 416: return "Range Not Satisfiable";
        case 417: return "Expectation Failed";
        case 421: return "Misdirected Request";
        case 422: return "Unprocessable Content";
        case 423: return "Locked";
        case 424: return "Failed Dependency";
        case 425: return "Too Early";
        case 426: return "Upgrade Required";
        case 428: return "Precondition Required";
        case 429: return "Too Many Requests";
        case 431: return "Request Header Fields Too Large";
        case 451: return "Unavailable For Legal Reasons";
        case 500: return "Internal Server Error";
        case 501: return "Not Implemented";
        case 502: return "Bad Gateway";
        case 503: return "Service Unavailable";
        case 504: return "Gateway Timeout";
        case 505: return "HTTP Version Not Supported";
        case 507: return "Insufficient Storage";
        default: return {};
    }
}

bool goes_on(const Field& field, const ConnectionOptions& connection) {
    return !is_hop_by_hop(field.name) && !is_framing(field.name) && !same_name(field.name, "expect") &&
           !same_name(field.name, "proxy") && !connection.names(field.name);
}

HeadWriter& HeadWriter::request_line(std::string_view method, std::string_view target) {
    request_ = true;
    Target parts;
    if (method.empty() || method.size() > method_bytes_max || !all_of(method, token_char)) fail(Fault::method_invalid);
    if (const Fault fault = read_target(target, method_of(method), parts); fault != Fault::none) fail(fault);
    out_.append(method).append(" ").append(target).append(" HTTP/1.1\r\n");
    return *this;
}

HeadWriter& HeadWriter::status_line(int status, std::string_view reason) {
    if (status < 100 || status > 599) fail(Fault::status_line_invalid);
    if (reason.empty()) reason = reason_of(status);
    if (!is_field_value(reason)) fail(Fault::value_not_writable);
    out_.append("HTTP/1.1 ").append(Number(static_cast<unsigned>(status)).text()).append(" ");
    out_.append(reason).append("\r\n");
    return *this;
}

HeadWriter& HeadWriter::field(std::string_view name, std::string_view value) {
    if (name.empty() || !all_of(name, token_char) || is_hop_by_hop(name) || is_framing(name))
        fail(Fault::field_not_writable);
    if (!is_field_value(value)) fail(Fault::value_not_writable);
    if (request_ && same_name(name, "host")) {
        if (++hosts_ > 1) fail(Fault::host_repeated);
        if (!is_host(trimmed(value))) fail(Fault::host_invalid);
    }
    line(name, value);
    return *this;
}

HeadWriter& HeadWriter::field(std::string_view name, std::uint64_t value) { return field(name, Number(value).text()); }

void HeadWriter::line(std::string_view name, std::string_view value) {
    out_.append(name).append(": ").append(value).append("\r\n");
}

Fault HeadWriter::end(Framing framing, Persistence persistence) {
    if (request_ && hosts_ == 0) fail(Fault::host_missing);
    switch (framing.kind) {
        case Framing::Kind::none: break;
        case Framing::Kind::length: line("Content-Length", Number(framing.length).text()); break;
        case Framing::Kind::chunked: line("Transfer-Encoding", "chunked"); break;
        case Framing::Kind::until_close:
            if (request_) fail(Fault::body_not_allowed);
            persistence = Persistence::close;
            break;
    }
    if (persistence == Persistence::close) line("Connection", "close");
    if (persistence == Persistence::keep_alive) line("Connection", "keep-alive");
    out_.append("\r\n");
    if (fault_ != Fault::none) out_.resize(began_);
    return fault_;
}

void write_chunk_begin(std::string& out, std::uint64_t size) { out.append(Number(size, 16).text()).append("\r\n"); }

void write_chunk(std::string& out, std::string_view data) {
    if (data.empty()) return;
    write_chunk_begin(out, data.size());
    out.append(data).append(chunk_end);
}

}  // namespace semel::http
