#include "http/head_lines.hpp"

#include <algorithm>

namespace semel::http {
namespace {

constexpr std::size_t buffer_bytes_first = 1024;
constexpr std::size_t buffer_bytes_kept = 8 * 1024;

Fault take_length(Control& control, std::string_view value) {
    if (control.has_length) return Fault::length_repeated;
    control.has_length = true;
    if (control.has_encoding) return Fault::length_and_encoding;
    return read_length(value, control.length) ? Fault::none : Fault::length_invalid;
}

Fault take_encoding(Control& control, std::string_view value) {
    if (control.has_encoding) return Fault::encoding_repeated;
    control.has_encoding = true;
    if (control.has_length) return Fault::length_and_encoding;
    return same_name(value, "chunked") ? Fault::none : Fault::encoding_invalid;
}

Fault take_host(Control& control, std::string_view value, Part value_part) {
    if (++control.hosts > 1) return Fault::host_repeated;
    control.host = value_part;
    return is_host(value) ? Fault::none : Fault::host_invalid;
}

Fault take_expectation(Control& control, std::string_view value) {
    const bool known = ++control.expectations == 1 && same_name(value, "100-continue");
    return known ? Fault::none : Fault::expectation_unknown;
}

// The fields that decide where the message ends and whom it is for, found by the length of their names.
Fault take_control(Control& control, Side side, std::string_view name, std::string_view value, Part value_part) {
    const bool request = side == Side::request;
    switch (name.size()) {
        case 4:
            if (request && same_name(name, "host")) return take_host(control, value, value_part);
            break;
        case 6:
            if (request && same_name(name, "expect")) return take_expectation(control, value);
            break;
        case 7:
            if (same_name(name, "upgrade")) control.upgrade = true;
            break;
        case 14:
            if (same_name(name, "content-length")) return take_length(control, value);
            if (same_variable(name, "content-length")) return Fault::field_name_lookalike;
            break;
        case 17:
            if (same_name(name, "transfer-encoding")) return take_encoding(control, value);
            if (same_variable(name, "transfer-encoding")) return Fault::field_name_lookalike;
            break;
        default: break;
    }
    return Fault::none;
}

}  // namespace

Fault fault_of_bytes(std::string_view text, Fault otherwise) {
    for (const char c : text) {
        if (c == '\r') return Fault::bare_cr;
        const auto byte = static_cast<unsigned char>(c);
        if ((byte < 0x20 && c != '\t') || byte == 0x7f) return Fault::control_character;
    }
    return otherwise;
}

bool read_length(std::string_view text, std::uint64_t& length) {
    if (text.empty() || text.size() > 19) return false;
    std::uint64_t value = 0;
    for (const char c : text) {
        if (!is(c, digit_char)) return false;
        value = value * 10 + static_cast<std::uint64_t>(c - '0');  // 19 digits fit into 64 bits
    }
    length = value;
    return value <= static_cast<std::uint64_t>(INT64_MAX);
}

Fault read_field_line(std::string_view line, std::string_view& name, std::string_view& value) {
    if (line.starts_with(' ') || line.starts_with('\t')) return Fault::field_folded;
    const std::size_t end = run_of(line, token_char);
    if (end == line.size()) return Fault::field_without_colon;
    if (line[end] == ':') {
        if (end == 0) return Fault::field_name_empty;
        name = line.substr(0, end);
        value = trimmed(line.substr(end + 1));
        return is_field_value(value) ? Fault::none : fault_of_bytes(value, Fault::control_character);
    }
    if (line[end] == ' ' || line[end] == '\t') {
        const std::size_t after = line.find_first_not_of(" \t", end);
        if (after != std::string_view::npos && line[after] == ':') return Fault::field_name_space;
    }
    const bool has_colon = line.find(':') != std::string_view::npos;
    return fault_of_bytes(line, has_colon ? Fault::field_name_invalid : Fault::field_without_colon);
}

HeadLines::Taken HeadLines::take(std::string_view& left, std::size_t line_bytes_max, Fault too_long) {
    if (buffer_.capacity() < buffer_bytes_first) buffer_.reserve(buffer_bytes_first);
    const std::size_t line_room = line_at_ + line_bytes_max + 2 - buffer_.size();
    const std::size_t head_room = limits_.head_bytes_max - buffer_.size();
    const std::string_view window = left.substr(0, std::min(line_room, head_room));
    const std::size_t end = window.find('\n');
    const std::size_t taken = end == std::string_view::npos ? window.size() : end + 1;
    buffer_.append(window.substr(0, taken));
    left.remove_prefix(taken);
    if (end == std::string_view::npos) {
        if (taken < std::min(line_room, head_room)) return Taken::more;
        fault_ = head_room <= line_room ? Fault::head_too_large : too_long;
        return Taken::refused;
    }
    const std::size_t size = buffer_.size() - line_at_;
    if (size < 2 || buffer_[buffer_.size() - 2] != '\r') {
        fault_ = Fault::bare_lf;
        return Taken::refused;
    }
    line_ = {static_cast<std::uint32_t>(line_at_), static_cast<std::uint32_t>(size - 2)};
    line_at_ = buffer_.size();
    return Taken::line;
}

Fault HeadLines::take_field() {
    if (fields_.size() == limits_.fields_max) return Fault::fields_too_many;
    std::string_view name;
    std::string_view value;
    if (const Fault fault = read_field_line(line(), name, value); fault != Fault::none) return fault;
    const Part value_part = part(value);
    fields_.push_back({part(name), value_part});
    return take_control(control_, side_, name, value, value_part);
}

Fault HeadLines::finish(Fields& fields, ConnectionOptions& options) const {
    fields.clear();
    fields.reserve(fields_.size());
    options = {};
    for (const FieldParts& parts : fields_) {
        const Field field{text(parts.name), text(parts.value)};
        fields.add(field);
        if (field.name.size() == 10 && same_name(field.name, "connection")) {
            if (const Fault fault = options.add(field.value, side_); fault != Fault::none) return fault;
        }
    }
    return Fault::none;
}

void HeadLines::reset() {
    if (buffer_.capacity() > buffer_bytes_kept) std::string().swap(buffer_);
    buffer_.clear();
    line_at_ = 0;
    line_ = {};
    fields_.clear();
    control_ = {};
    fault_ = Fault::none;
}

}  // namespace semel::http
