#include "http/request.hpp"

#include <algorithm>
#include <array>

namespace semel::http {
namespace {

constexpr std::string_view version_example = "HTTP/1.1";

// A gateway that takes `post` for a method of its own and an upstream that takes it for POST do not see the same request.
bool is_standard_in_wrong_case(std::string_view method) {
    constexpr std::array<std::string_view, 9> standard{"GET",    "HEAD",    "POST",    "PUT",  "PATCH",
                                                       "DELETE", "OPTIONS", "CONNECT", "TRACE"};
    return std::any_of(standard.begin(), standard.end(),
                       [&](std::string_view each) { return method != each && same_name(method, each); });
}

Fault read_method(std::string_view text, Method& method) {
    if (text.empty() || !all_of(text, token_char)) return Fault::method_invalid;
    if (text.size() > method_bytes_max) return Fault::method_too_long;
    method = method_of(text);
    if (method == Method::other && is_standard_in_wrong_case(text)) return Fault::method_case;
    return Fault::none;
}

}  // namespace

Fault read_version(std::string_view text, Version& version) {
    if (text == "HTTP/1.1") {
        version = Version::http_1_1;
        return Fault::none;
    }
    if (text == "HTTP/1.0") {
        version = Version::http_1_0;
        return Fault::none;
    }
    const bool well_formed = text.size() == version_example.size() && text.starts_with("HTTP/") &&
                             is(text[5], digit_char) && text[6] == '.' && is(text[7], digit_char);
    return well_formed ? Fault::version_unsupported : Fault::version_invalid;
}

Step RequestReader::feed(std::string_view bytes) {
    std::string_view left = bytes;
    if (progress_ == Progress::more && lines_.empty() && !left.empty() && !is(left.front(), token_char)) {
        const bool blank = std::string_view("\r\n \t").find(left.front()) != std::string_view::npos;
        refuse(blank ? Fault::leading_bytes : Fault::method_invalid);
    }
    while (progress_ == Progress::more) {
        const HeadLimits& limits = lines_.limits();
        const bool first = target_.size == 0;
        const auto taken =
            first ? lines_.take(left, method_bytes_max + 1 + limits.target_bytes_max + 1 + version_example.size(),
                                Fault::target_too_long)
                  : lines_.take(left, limits.field_bytes_max, Fault::field_too_long);
        if (taken == HeadLines::Taken::more) break;
        const Fault fault = taken == HeadLines::Taken::refused ? lines_.fault() : take_line();
        if (fault != Fault::none) refuse(fault);
    }
    return {progress_, bytes.size() - left.size()};
}

Fault RequestReader::take_line() {
    if (target_.size == 0) return take_request_line(lines_.line());
    if (!lines_.line().empty()) {
        const Fault fault = lines_.take_field();
        if (fault == Fault::none && lines_.control().has_encoding && head_.version == Version::http_1_0)
            return Fault::encoding_in_http_1_0;
        return fault;
    }
    const Fault fault = finish();
    if (fault == Fault::none) progress_ = Progress::done;
    return fault;
}

Fault RequestReader::take_request_line(std::string_view line) {
    const std::size_t method_end = line.find(' ');
    if (method_end == std::string_view::npos) return fault_of_bytes(line, Fault::request_line_invalid);
    const std::string_view method = line.substr(0, method_end);
    if (const Fault fault = read_method(method, head_.method); fault != Fault::none)
        return fault_of_bytes(method, fault);

    const std::string_view rest = line.substr(method_end + 1);
    const std::size_t target_end = rest.find(' ');
    if (target_end == 0 || target_end == std::string_view::npos)
        return fault_of_bytes(rest, Fault::request_line_invalid);
    const std::string_view target = rest.substr(0, target_end);
    const std::string_view version = rest.substr(target_end + 1);
    if (version.find(' ') != std::string_view::npos) return fault_of_bytes(version, Fault::request_line_invalid);
    if (const Fault fault = read_version(version, head_.version); fault != Fault::none)
        return fault_of_bytes(version, fault);
    if (target.size() > lines_.limits().target_bytes_max) return Fault::target_too_long;
    if (const Fault fault = read_target(target, head_.method, head_.target); fault != Fault::none) return fault;
    method_ = lines_.part(method);
    target_ = lines_.part(target);
    return Fault::none;
}

Fault RequestReader::finish() {
    RequestHead& head = head_;
    const Control& control = lines_.control();
    if (const Fault fault = lines_.finish(head.fields, head.connection); fault != Fault::none) return fault;
    head.method_text = lines_.text(method_);
    head.target_text = lines_.text(target_);
    read_target(head.target_text, head.method, head.target);  // again: the buffer may have moved since

    if (control.hosts == 0 && head.version == Version::http_1_1) return Fault::host_missing;
    head.host = lines_.text(control.host);
    if (!head.target.authority.empty() && control.hosts == 0) head.host = head.target.authority;
    if (head.target.form == TargetForm::absolute && !same_name(head.host, head.target.authority))
        return Fault::host_differs;

    head.framing = control.has_encoding ? Framing::chunked()
                   : control.has_length ? Framing::of_length(control.length)
                                        : Framing::none();
    const bool bodiless = head.method == Method::trace || head.method == Method::connect;
    if (bodiless && head.framing.kind != Framing::Kind::none) return Fault::body_not_allowed;
    const bool is_1_1 = head.version == Version::http_1_1;
    head.keep_alive = !head.connection.close() && (is_1_1 || head.connection.keep_alive());
    head.expect_continue = is_1_1 && control.expectations == 1 && !head.framing.empty();
    head.upgrade = control.upgrade || head.connection.names("upgrade");
    return Fault::none;
}

void RequestReader::refuse(Fault fault) {
    progress_ = Progress::refused;
    fault_ = fault;
}

void RequestReader::reset() {
    lines_.reset();
    method_ = {};
    target_ = {};
    progress_ = Progress::more;
    fault_ = Fault::none;
}

}  // namespace semel::http
