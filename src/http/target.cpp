#include "http/target.hpp"

#include <optional>

#include "http/chars.hpp"
#include "http/fields.hpp"
#include "http/head_lines.hpp"

namespace semel::http {
namespace {

constexpr int hex_value(char c) { return c <= '9' ? c - '0' : lower(c) - 'a' + 10; }

// The byte that the %XX at the front of `text` stands for.
std::optional<char> percent_byte(std::string_view text) {
    if (text.size() < 3 || !is(text[1], hex_char) || !is(text[2], hex_char)) return std::nullopt;
    return static_cast<char>(hex_value(text[1]) * 16 + hex_value(text[2]));
}

Fault check_path(std::string_view path) {
    if (path.find('\\') != std::string_view::npos) return Fault::target_invalid;
    for (auto i = path.find('%'); i != std::string_view::npos; i = path.find('%', i + 1)) {
        const auto byte = percent_byte(path.substr(i));
        if (!byte || *byte == '\0') return Fault::target_percent;
    }
    return Fault::none;
}

Fault read_path_and_query(std::string_view text, Target& target) {
    const std::size_t mark = text.find('?');
    target.path = text.substr(0, mark);
    target.has_query = mark != std::string_view::npos;
    target.query = target.has_query ? text.substr(mark + 1) : std::string_view();
    return check_path(target.path);
}

Fault read_absolute(std::string_view text, Method method, Target& target) {
    std::size_t scheme = 0;
    if (name_starts_with(text, "http://")) scheme = 7;
    if (name_starts_with(text, "https://")) scheme = 8;
    if (scheme == 0) return Fault::target_form;
    text.remove_prefix(scheme);
    const std::size_t end = text.find_first_of("/?");
    target.form = TargetForm::absolute;
    target.authority = text.substr(0, end);
    if (!is_host(target.authority)) return Fault::host_invalid;
    const std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end);
    const Fault fault = read_path_and_query(rest, target);
    if (target.path.empty()) target.path = method == Method::options && !target.has_query ? "*" : "/";
    return fault;
}

Fault read_authority(std::string_view text, Target& target) {
    target.form = TargetForm::authority;
    target.authority = text;
    const std::size_t colon = text.rfind(':');
    const bool has_port = colon != std::string_view::npos && !text.ends_with(']');
    return has_port && is_host(text) ? Fault::none : Fault::target_form;
}

// A segment with what needs no encoding decoded, as far as it can tell "." and ".." from others.
bool is_dots(std::string_view segment) {
    int dots = 0;
    while (!segment.empty()) {
        const bool encoded = segment.size() >= 3 && segment[0] == '%' && percent_byte(segment) == '.';
        if (!encoded && segment[0] != '.') return false;
        segment.remove_prefix(encoded ? 3 : 1);
        ++dots;
    }
    return dots == 1 || dots == 2;
}

}  // namespace

Method method_of(std::string_view text) {
    switch (text.size()) {
        case 3:
            if (text == "GET") return Method::get;
            if (text == "PUT") return Method::put;
            break;
        case 4:
            if (text == "POST") return Method::post;
            if (text == "HEAD") return Method::head;
            break;
        case 5:
            if (text == "PATCH") return Method::patch;
            if (text == "TRACE") return Method::trace;
            break;
        case 6:
            if (text == "DELETE") return Method::remove;
            break;
        case 7:
            if (text == "OPTIONS") return Method::options;
            if (text == "CONNECT") return Method::connect;
            break;
        default: break;
    }
    return Method::other;
}

Fault read_target(std::string_view text, Method method, Target& target) {
    target = {};
    if (const std::size_t end = run_of(text, target_char); end != text.size()) {
        if (text[end] == '#') return Fault::target_fragment;
        return fault_of_bytes(text, Fault::target_invalid);
    }
    if (method == Method::connect) return read_authority(text, target);
    if (text.starts_with('/')) return read_path_and_query(text, target);
    if (text == "*") {
        target.form = TargetForm::asterisk;
        target.path = text;
        return method == Method::options ? Fault::none : Fault::target_form;
    }
    return read_absolute(text, method, target);
}

std::string origin_form(const Target& target) {
    std::string text(target.path);
    if (target.has_query) text.append("?").append(target.query);
    return text;
}

bool is_plain_path(std::string_view path) {
    if (!path.starts_with('/')) return path == "*";
    for (auto i = path.find('%'); i != std::string_view::npos; i = path.find('%', i + 1)) {
        const auto byte = percent_byte(path.substr(i));
        if (!byte || *byte == '/' || *byte == '\\' || is(*byte, unreserved_char)) return false;
    }
    path.remove_prefix(1);
    while (true) {
        const std::size_t slash = path.find('/');
        const std::string_view segment = path.substr(0, slash);
        if (is_dots(segment) || segment.find('\\') != std::string_view::npos) return false;
        if (slash == std::string_view::npos) return true;
        if (segment.empty()) return false;
        path.remove_prefix(slash + 1);
    }
}

}  // namespace semel::http
