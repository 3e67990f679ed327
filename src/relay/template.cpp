#include "relay/template.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/json.hpp"
#include "http/chars.hpp"

namespace semel::relay {
namespace {

using Node = JsonDocument::Node;
using Kind = JsonDocument::Kind;

constexpr std::array<std::string_view, 8> names{"id",   "source", "type",        "subject",
                                                "time", "key",    "correlation", "data"};

Failure refused(std::string why) { return {Code::invalid, std::move(why)}; }

// The place that begins at the brace, without its braces; empty if none does: `{`, then a letter or a slash, then no
// white space, quote, colon, comma or brace up to `}`. Neither JSON nor a URL has that.
std::string_view place_at(std::string_view text) {
    const std::size_t end = text.find_first_of("{}\" \t\r\n:,", 1);
    if (end == std::string_view::npos || end < 2 || text[end] != '}') return {};
    const char first = text[1];
    const bool begins =
        first == '/' || first == '_' || (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z');
    return begins ? text.substr(1, end - 1) : std::string_view();
}

bool is_printable(std::string_view text) {
    return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f; });
}

std::string percent_encoded(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (http::is(c, http::unreserved_char))
            out.push_back(c);
        else
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

std::string json_escaped(std::string_view text) {
    const std::string quoted = json_text(text);
    return quoted.substr(1, quoted.size() - 2);
}

void append_value(std::string& out, const JsonDocument& document, JsonDocument::Index index) {
    const Node& node = document.node(index);
    switch (node.kind) {
        case Kind::literal:
        case Kind::number: out += node.text; break;
        case Kind::string: append_json_string(out, node.text); break;
        case Kind::array: {
            out += '[';
            JsonDocument::Index element = index + 1;
            for (JsonDocument::Index i = 0; i < node.count; ++i, element = document.node(element).end) {
                if (i > 0) out += ',';
                append_value(out, document, element);
            }
            out += ']';
            break;
        }
        case Kind::object: {
            out += '{';
            bool first = true;
            for (const JsonDocument::Index name : document.members(node)) {
                if (!first) out += ',';
                first = false;
                append_json_string(out, document.node(name).text);
                out += ':';
                append_value(out, document, name + 1);
            }
            out += '}';
            break;
        }
    }
}

std::string_view attribute(std::string_view name, const Template::Values& values) {
    if (name == "id") return values.event.id;
    if (name == "source") return values.event.source;
    if (name == "type") return values.event.type;
    if (name == "subject") return values.event.subject;
    if (name == "time") return values.event.time;
    return name == "key" ? values.key : values.correlation;
}

// The part of a URL that may not be filled in: scheme, host and port.
std::size_t end_of_authority(std::string_view url) {
    const std::size_t scheme = url.find("://");
    if (scheme == std::string_view::npos) return url.size();
    return std::min(url.find_first_of("/?#", scheme + 3), url.size());
}

}  // namespace

Result<Template> Template::parse(std::string_view text, Of of) {
    if (text.size() > bytes_max) return refused(fmt::format("more than {} bytes", bytes_max));
    Template made(of);
    const std::size_t authority = of == Of::url ? end_of_authority(text) : 0;
    bool quoted = false;
    bool escaped = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const std::string_view written = c == '{' ? place_at(text.substr(i)) : std::string_view();
        if (written.empty()) {
            if (c == '"' && !escaped) quoted = !quoted;
            escaped = quoted && c == '\\' && !escaped;
            made.text_.push_back(c);
            continue;
        }
        Place place{.at = made.text_.size(), .name = std::string(written)};
        place.quoted = quoted;
        place.in_path = text.substr(0, i).find('?') == std::string_view::npos;
        if (of == Of::url && i < authority) return refused("nothing can be filled in before the path");
        if (written.starts_with('/')) {
            auto pointer = JsonPointer::parse(written);
            if (!pointer) return std::move(pointer).failure();
            place.pointer = std::move(*pointer);
        } else if (std::ranges::find(names, written) == names.end()) {
            // Not shown: it may come from the environment.
            return refused(
                fmt::format("what the brace at character {} begins stands for nothing; write one of {{{}}}, or a "
                            "JSON pointer, as in {{/order/id}}",
                            i + 1, fmt::join(names, "}, {")));
        } else if (written == "data" && of != Of::json) {
            return refused("{data} can only stand in a body");
        }
        made.places_.push_back(std::move(place));
        i += written.size() + 1;
    }
    return made;
}

Result<std::string> Template::value_of(const Place& place, const Values& values) const {
    const auto nothing = [&](std::string_view why) { return refused(fmt::format("{{{}}}: {}", place.name, why)); };
    const bool as_json = of_ == Of::json && !place.quoted;
    if (place.name == "data") {
        if (!as_json) return json_escaped(values.event.data);
        if (values.data == nullptr) return nothing("the event's data is no JSON");
        return values.event.data;
    }
    std::string text;
    if (place.pointer) {
        if (values.data == nullptr) return nothing("the event's data is no JSON");
        const auto at = values.data->find(*place.pointer);
        if (!at) return nothing("there is nothing in the event's data");
        const Node& node = values.data->node(*at);
        if (as_json) {
            append_value(text, *values.data, *at);
            return text;
        }
        if (node.kind == Kind::object || node.kind == Kind::array) return nothing("it is no single value");
        text = node.text;
    } else {
        text = attribute(place.name, values);
        if (as_json) return json_text(text);
    }
    switch (of_) {
        case Of::json: return json_escaped(text);
        case Of::header:
            if (!is_printable(text)) return nothing("a header cannot hold it: it is not printable ASCII");
            return text;
        case Of::url:
            if (place.in_path && (text.empty() || text == "." || text == ".."))
                return nothing("empty, . and .. would name another path");
            return percent_encoded(text);
    }
    return text;
}

Result<std::string> Template::filled(const Values& values) const {
    std::string out;
    std::size_t from = 0;
    for (const Place& place : places_) {
        out += std::string_view(text_).substr(from, place.at - from);
        from = place.at;
        auto value = value_of(place, values);
        if (!value) return value;
        out += *value;
    }
    out += std::string_view(text_).substr(from);
    if (of_ == Of::json && !JsonDocument::parse(out)) return refused("the body that was filled in is no JSON");
    return out;
}

}  // namespace semel::relay
