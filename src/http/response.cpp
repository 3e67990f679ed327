#include "http/response.hpp"

namespace semel::http {
namespace {

constexpr std::size_t status_bytes = std::string_view("HTTP/1.1 200").size();

}  // namespace

Step ResponseReader::feed(std::string_view bytes) {
    std::string_view left = bytes;
    if (progress_ == Progress::more && lines_.empty() && !left.empty() && left.front() != 'H') {
        const bool blank = std::string_view("\r\n \t").find(left.front()) != std::string_view::npos;
        refuse(blank ? Fault::leading_bytes : Fault::status_line_invalid);
    }
    while (progress_ == Progress::more) {
        const HeadLimits& limits = lines_.limits();
        const auto taken =
            has_status_ ? lines_.take(left, limits.field_bytes_max, Fault::field_too_long)
                        : lines_.take(left, status_bytes + 1 + limits.target_bytes_max, Fault::status_line_invalid);
        if (taken == HeadLines::Taken::more) break;
        const Fault fault = taken == HeadLines::Taken::refused ? lines_.fault() : take_line();
        if (fault != Fault::none) refuse(fault);
    }
    return {progress_, bytes.size() - left.size()};
}

Fault ResponseReader::take_line() {
    if (!has_status_) return take_status_line(lines_.line());
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

Fault ResponseReader::take_status_line(std::string_view line) {
    if (line.size() < status_bytes || line[8] != ' ') return fault_of_bytes(line, Fault::status_line_invalid);
    if (const Fault fault = read_version(line.substr(0, 8), head_.version); fault != Fault::none)
        return fault_of_bytes(line, fault);
    const std::string_view digits = line.substr(9, 3);
    if (!all_of(digits, digit_char) || digits[0] < '1' || digits[0] > '5')
        return fault_of_bytes(line, Fault::status_line_invalid);
    head_.status = (digits[0] - '0') * 100 + (digits[1] - '0') * 10 + (digits[2] - '0');
    std::string_view reason = line.substr(status_bytes);
    if (!reason.empty()) {
        if (reason.front() != ' ') return fault_of_bytes(line, Fault::status_line_invalid);
        reason.remove_prefix(1);
    }
    if (!is_field_value(reason)) return fault_of_bytes(reason, Fault::control_character);
    reason_ = lines_.part(reason);
    has_status_ = true;
    return Fault::none;
}

Fault ResponseReader::finish() {
    if (const Fault fault = lines_.finish(head_.fields, head_.connection); fault != Fault::none) return fault;
    head_.reason = lines_.text(reason_);
    if (const Fault fault = set_framing(); fault != Fault::none) return fault;
    const bool is_1_1 = head_.version == Version::http_1_1;
    head_.keep_alive = !head_.connection.close() && (is_1_1 || head_.connection.keep_alive()) &&
                       head_.framing.kind != Framing::Kind::until_close && head_.status != 101;
    return Fault::none;
}

Fault ResponseReader::set_framing() {
    const Control& control = lines_.control();
    head_.content_length = control.has_length ? std::optional(control.length) : std::nullopt;
    head_.framing = Framing::none();
    if (head_.status < 200 || head_.status == 204) {
        const bool announced = control.has_encoding || (control.has_length && control.length > 0);
        return announced ? Fault::body_not_allowed : Fault::none;
    }
    if (method_ == Method::head || head_.status == 304) return Fault::none;
    head_.framing = control.has_encoding ? Framing::chunked()
                    : control.has_length ? Framing::of_length(control.length)
                                         : Framing::until_close();
    return Fault::none;
}

void ResponseReader::refuse(Fault fault) {
    progress_ = Progress::refused;
    fault_ = fault;
}

void ResponseReader::reset(Method method) {
    lines_.reset();
    method_ = method;
    reason_ = {};
    has_status_ = false;
    progress_ = Progress::more;
    fault_ = Fault::none;
}

}  // namespace semel::http
