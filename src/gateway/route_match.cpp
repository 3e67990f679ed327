#include "gateway/route_match.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "base/quote.hpp"
#include "http/chars.hpp"
#include "http/message.hpp"
#include "http/target.hpp"

namespace semel::gateway {
namespace {

constexpr std::string_view any = "{}";  ///< a segment of a Match that takes one of anything
constexpr std::string_view example = "write METHOD PATH, as in POST /v1/payments/{id}";

// ---- reading a pattern ---------------------------------------------------------------------------------------------

bool is_method(std::string_view text) {
    if (text == "*") return true;
    if (text.empty() || text.size() > http::method_bytes_max || text == "CONNECT") return false;
    return std::ranges::all_of(
        text, [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; });
}

bool is_parameter(std::string_view segment) {
    if (segment.size() < 3 || segment.front() != '{' || segment.back() != '}') return false;
    segment = segment.substr(1, segment.size() - 2);
    return std::ranges::all_of(segment, [](char c) { return http::is(c, http::unreserved_char); });
}

/// The parts of a path that begins with a slash: `/a/` has two, the second of which is empty.
std::vector<std::string_view> segments_of(std::string_view path) {
    std::vector<std::string_view> segments;
    while (!path.empty()) {
        path.remove_prefix(1);
        const std::size_t end = std::min(path.find('/'), path.size());
        segments.push_back(path.substr(0, end));
        path.remove_prefix(end);
    }
    return segments;
}

std::optional<std::string_view> fault_of_path(std::string_view path) {
    if (!path.starts_with('/')) return "the path begins with a slash";
    if (path.find_first_of("?#") != std::string_view::npos)
        return "a path has no query; a query is part of the fingerprint";
    if (!http::all_of(path, http::target_char) || !http::is_plain_path(path))
        return "the path is not plain: no spaces, no empty, . or .. segments, and encoded only what has to be";
    return std::nullopt;
}

/// Whether `left`, what follows a pattern's prefix, is as the pattern goes on.
bool fits(const std::vector<std::string_view>& segments, bool rest, std::string_view left) {
    for (std::size_t i = 0; i < segments.size(); ++i) {
        const std::size_t end = std::min(left.find('/'), left.size());
        if (segments[i] == any ? end == 0 : left.substr(0, end) != segments[i]) return false;
        if (i + 1 == segments.size() && !rest) return end == left.size();
        if (end == left.size()) return false;
        left.remove_prefix(end + 1);
    }
    return true;
}

// ---- what a generous upstream might read ---------------------------------------------------------------------------

int hex_of(char c) { return c <= '9' ? c - '0' : http::lower(c) - 'a' + 10; }

std::string decoded(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool encoded = text[i] == '%' && i + 2 < text.size() && http::is(text[i + 1], http::hex_char) &&
                             http::is(text[i + 2], http::hex_char);
        out += encoded ? static_cast<char>(hex_of(text[i + 1]) * 16 + hex_of(text[i + 2])) : text[i];
        if (encoded) i += 2;
    }
    return out;
}

struct Reading {
    bool slashes_decoded;  ///< %2F and %5C separate segments
    bool merged_first;     ///< empty segments vanish before `..` is resolved
};

std::vector<std::string> normalised(std::string_view path, Reading reading) {
    const std::string whole = reading.slashes_decoded ? decoded(path) : std::string(path);
    std::vector<std::string> segments;
    std::string_view left = whole;
    while (!left.empty()) {
        left.remove_prefix(1);  // the slash
        const std::size_t end = std::min(left.find_first_of("/\\"), left.size());
        const std::string_view written = left.substr(0, end);
        std::string segment = reading.slashes_decoded ? std::string(written) : decoded(written);
        if (segment == "..") {
            if (!segments.empty()) segments.pop_back();
        } else if (segment != "." && !(segment.empty() && reading.merged_first)) {
            segments.push_back(std::move(segment));
        }
        left.remove_prefix(end);
    }
    std::erase_if(segments, [](const std::string& segment) { return segment.empty(); });
    return segments;
}

}  // namespace

Result<Match> parse_match(std::string_view text) {
    const auto refused = [](std::string_view why) -> Result<Match> {
        return Failure{Code::invalid, fmt::format("{}; {}", why, example)};
    };
    const std::size_t space = text.find(' ');
    if (space == std::string_view::npos) return refused("no space between a method and a path");
    const std::string_view path = text.substr(space + 1);
    Match match;
    match.method = text.substr(0, space);
    match.text = text;
    if (!is_method(match.method)) return refused("a method is in capitals, or * for any, and is not CONNECT");
    // Braces are none of a path's own characters, so they are judged as letters.
    std::string judged(path);
    std::ranges::replace_if(
        judged, [](char c) { return c == '{' || c == '}'; }, 'x');
    if (const auto fault = fault_of_path(judged)) return refused(*fault);
    for (const std::string_view segment : segments_of(path)) {
        if (match.rest) return refused("* takes all the rest, so it is the last segment");
        if (segment == "*")
            match.rest = true;
        else if (is_parameter(segment))
            match.segments.emplace_back(any);
        else if (segment.find_first_of("{}*") != std::string_view::npos)
            return refused("{name} and * are whole segments");
        else
            match.segments.emplace_back(segment);
    }
    return match;
}

bool covers(const Match& earlier, const Match& later) {
    if (earlier.method != "*" && earlier.method != later.method) return false;
    const std::size_t count = earlier.segments.size();
    // A rest takes at least one segment, if only an empty one.
    const std::size_t later_count = later.segments.size() + (later.rest ? 1 : 0);
    if (earlier.rest ? later_count <= count : (later.rest || later_count != count)) return false;
    for (std::size_t i = 0; i < count; ++i) {
        const std::string& wide = earlier.segments[i];
        const std::string& narrow = later.segments[i];
        if (wide == any ? narrow.empty() : wide != narrow) return false;
    }
    return true;
}

RouteTable::RouteTable(const std::vector<Route>& routes) : routes_(&routes) {
    for (std::uint32_t i = 0; i < routes.size(); ++i) {
        const Match& match = routes[i].match;
        const auto first_any = std::ranges::find(match.segments, any);
        std::string prefix;
        for (auto segment = match.segments.begin(); segment != first_any; ++segment)
            prefix.append("/").append(*segment);
        if (first_any == match.segments.end() && !match.rest) {
            exact_.push_back({std::move(prefix), i});
        } else {
            prefix += '/';
            patterns_.push_back({std::move(prefix), {first_any, match.segments.end()}, i});
        }
    }
    std::ranges::stable_sort(exact_, {}, &Exact::path);
}

bool RouteTable::takes_method(std::uint32_t index, std::string_view method) const {
    const std::string& wanted = (*routes_)[index].match.method;
    return wanted == method || wanted == "*";
}

const Route* RouteTable::find(std::string_view method, std::string_view path) const {
    constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t found = none;
    const auto by_path = [](const Exact& exact) -> std::string_view { return exact.path; };
    for (auto exact = std::ranges::lower_bound(exact_, path, {}, by_path);
         exact != exact_.end() && exact->path == path && found == none; ++exact)
        if (takes_method(exact->index, method)) found = exact->index;
    for (const Pattern& pattern : patterns_) {
        if (pattern.index > found) break;
        if (!path.starts_with(pattern.prefix) || !takes_method(pattern.index, method)) continue;
        if (!fits(pattern.segments, (*routes_)[pattern.index].match.rest, path.substr(pattern.prefix.size()))) continue;
        found = pattern.index;
        break;
    }
    return found == none ? nullptr : &(*routes_)[found];
}

bool RouteTable::matches_segments(const Route& route, const std::vector<std::string>& segments) const {
    std::vector<std::string> wanted;
    for (const std::string& segment : route.match.segments)
        if (!segment.empty()) wanted.push_back(segment == any ? segment : decoded(segment));
    if (route.match.rest ? segments.size() < wanted.size() : segments.size() != wanted.size()) return false;
    for (std::size_t i = 0; i < wanted.size(); ++i)
        if (wanted[i] != any && wanted[i] != segments[i]) return false;
    return true;
}

bool RouteTable::could_match_normalised(std::string_view method, std::string_view path) const {
    const auto keyed = [&](const Route& route) { return route.key_for(method) != KeyUse::ignored; };
    if (const Route* written = find(method, path); written != nullptr && keyed(*written)) return true;
    for (const Reading reading : {Reading{false, false}, {false, true}, {true, false}, {true, true}}) {
        const std::vector<std::string> segments = normalised(path, reading);
        for (std::uint32_t i = 0; i < routes_->size(); ++i) {
            const Route& route = (*routes_)[i];
            if (takes_method(i, method) && keyed(route) && matches_segments(route, segments)) return true;
        }
    }
    return false;
}

}  // namespace semel::gateway
