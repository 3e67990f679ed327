#include "http/body.hpp"

#include <algorithm>
#include <array>

#include "http/chars.hpp"
#include "http/fields.hpp"
#include "http/head_lines.hpp"

namespace semel::http {
namespace {

constexpr int size_digits_max = 16;

// What frames, routes, authenticates or changes the meaning of a message has no place behind it (RFC 9110 6.5.1).
constexpr std::array<std::string_view, 27> head_only{"age",
                                                     "authorization",
                                                     "cache-control",
                                                     "connection",
                                                     "content-encoding",
                                                     "content-length",
                                                     "content-range",
                                                     "content-type",
                                                     "cookie",
                                                     "date",
                                                     "expect",
                                                     "forwarded",
                                                     "host",
                                                     "idempotency-key",
                                                     "keep-alive",
                                                     "location",
                                                     "max-forwards",
                                                     "pragma",
                                                     "range",
                                                     "retry-after",
                                                     "set-cookie",
                                                     "te",
                                                     "trailer",
                                                     "transfer-encoding",
                                                     "upgrade",
                                                     "vary",
                                                     "www-authenticate"};

bool may_only_stand_in_head(std::string_view name) {
    return std::any_of(head_only.begin(), head_only.end(),
                       [&](std::string_view each) { return same_variable(name, each); }) ||
           variable_starts_with(name, "if-") || variable_starts_with(name, "proxy-") ||
           variable_starts_with(name, "semel-") || variable_starts_with(name, "x-forwarded-");
}

unsigned hex_value(char c) { return static_cast<unsigned>(c <= '9' ? c - '0' : lower(c) - 'a' + 10); }

}  // namespace

void BodyReader::start(Framing framing, const BodyLimits& limits) {
    framing_ = framing;
    limits_ = limits;
    left_ = framing.length;
    body_bytes_ = 0;
    size_digits_ = 0;
    trailer_bytes_ = 0;
    line_.clear();
    at_ = At::size_first;
    progress_ = framing.empty() ? Progress::done : Progress::more;
    fault_ = Fault::none;
    if (framing.kind == Framing::Kind::length && framing.length > limits.body_bytes_max) refuse(Fault::body_too_large);
}

BodyStep BodyReader::feed(std::string_view bytes) {
    if (progress_ != Progress::more) return {progress_, 0, {}};
    return framing_.kind == Framing::Kind::chunked ? feed_chunked(bytes) : feed_plain(bytes);
}

Progress BodyReader::close() {
    if (progress_ != Progress::more) return progress_;
    if (framing_.kind == Framing::Kind::until_close) {
        progress_ = Progress::done;
    } else {
        refuse(Fault::body_cut_short);
    }
    return progress_;
}

BodyStep BodyReader::feed_plain(std::string_view bytes) {
    const bool has_length = framing_.kind == Framing::Kind::length;
    const std::uint64_t room = has_length ? left_ : limits_.body_bytes_max - body_bytes_;
    const std::string_view data = bytes.substr(0, std::min<std::uint64_t>(room, bytes.size()));
    body_bytes_ += data.size();
    if (has_length) {
        left_ -= data.size();
        if (left_ == 0) progress_ = Progress::done;
    } else if (data.size() < bytes.size()) {
        refuse(Fault::body_too_large);
    }
    return {progress_, data.size(), data};
}

BodyStep BodyReader::feed_chunked(std::string_view bytes) {
    std::string_view left = bytes;
    while (progress_ == Progress::more && !left.empty()) {
        if (at_ == At::data) {
            const std::string_view data = left.substr(0, std::min<std::uint64_t>(left_, left.size()));
            left.remove_prefix(data.size());
            left_ -= data.size();
            body_bytes_ += data.size();
            if (left_ == 0) at_ = At::data_cr;
            return {progress_, bytes.size() - left.size(), data};
        }
        if (at_ == At::trailer) {
            take_trailer(left);
            continue;
        }
        const char c = left.front();
        left.remove_prefix(1);
        if (at_ == At::data_cr || at_ == At::data_lf) {
            if (c != (at_ == At::data_cr ? '\r' : '\n')) refuse(Fault::chunk_end_invalid);
            at_ = at_ == At::data_cr ? At::data_lf : At::size_first;
        } else {
            take_size(c);
        }
    }
    return {progress_, bytes.size() - left.size(), {}};
}

void BodyReader::take_size(char c) {
    if (at_ == At::size_lf) {
        if (c != '\n') return refuse(Fault::chunk_size_invalid);
        return end_size();
    }
    if (is(c, hex_char)) {
        if (at_ == At::size_first) {
            left_ = 0;
            size_digits_ = 0;
            at_ = At::size;
        }
        if (++size_digits_ > size_digits_max) return refuse(Fault::chunk_size_invalid);
        left_ = left_ * 16 + hex_value(c);  // 16 digits fit into 64 bits
    } else if (c == '\r' && at_ == At::size) {
        at_ = At::size_lf;
    } else {
        refuse(c == ';' ? Fault::chunk_extension : Fault::chunk_size_invalid);
    }
}

void BodyReader::end_size() {
    if (left_ == 0) {
        at_ = At::trailer;
    } else if (left_ > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
        refuse(Fault::chunk_size_invalid);
    } else if (left_ > limits_.body_bytes_max - body_bytes_) {
        refuse(Fault::body_too_large);
    } else {
        at_ = At::data;
    }
}

void BodyReader::take_trailer(std::string_view& left) {
    // What may still come: the trailers' bytes, and the empty line.
    const std::size_t room = limits_.trailer_bytes_max + 2 - trailer_bytes_ - line_.size();
    const std::string_view window = left.substr(0, room);
    const std::size_t end = window.find('\n');
    const std::size_t taken = end == std::string_view::npos ? window.size() : end + 1;
    line_.append(window.substr(0, taken));
    left.remove_prefix(taken);
    if (end == std::string_view::npos) {
        if (taken == room) refuse(Fault::trailers_too_large);
        return;
    }
    if (!line_.ends_with("\r\n")) return refuse(Fault::bare_lf);
    const std::string_view line = std::string_view(line_).substr(0, line_.size() - 2);
    if (line.empty()) {
        progress_ = Progress::done;
        return;
    }
    if (const Fault fault = check_trailer(line); fault != Fault::none) return refuse(fault);
    trailer_bytes_ += line_.size();
    if (trailer_bytes_ > limits_.trailer_bytes_max) return refuse(Fault::trailers_too_large);
    line_.clear();
}

Fault BodyReader::check_trailer(std::string_view line) const {
    std::string_view name;
    std::string_view value;
    if (const Fault fault = read_field_line(line, name, value); fault != Fault::none) return fault;
    if (may_only_stand_in_head(name)) return Fault::trailer_forbidden;
    return limits_.trailers == Trailers::refuse ? Fault::trailers_refused : Fault::none;
}

void BodyReader::refuse(Fault fault) {
    progress_ = Progress::refused;
    fault_ = fault;
}

}  // namespace semel::http
