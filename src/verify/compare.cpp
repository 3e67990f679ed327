#include "verify/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "http/fields.hpp"

namespace semel::verify {
namespace {

/// They describe the body or say where the thing is: part of the answer.
constexpr std::array<std::string_view, 7> answer_fields{
    "Content-Type", "Content-Encoding", "Content-Language", "Location", "Content-Location", "ETag", "Last-Modified"};

/// Meant for one caller at one moment.
constexpr std::array<std::string_view, 5> personal_fields{"WWW-Authenticate", "Proxy-Authenticate", "Authorization",
                                                          "Proxy-Authorization", "Authentication-Info"};

/// Of a connection that is not this one. Connection, Keep-Alive, Transfer-Encoding and Upgrade may be this one's own.
constexpr std::array<std::string_view, 4> foreign_fields{"Proxy-Connection", "TE", "HTTP2-Settings",
                                                         "Proxy-Authentication-Info"};

constexpr std::array<std::string_view, 11> single_fields{
    "Content-Type", "Content-Length", "Content-Location", "Transfer-Encoding",   "Location", "ETag", "Last-Modified",
    "Date",         "Server",         "Retry-After",      "Idempotent-Replayed",
};

std::string shown(std::optional<std::string_view> value) { return value ? std::string(*value) : "none"; }

Failed different(std::string reason, std::string expected, std::string seen) {
    return {Finding::wrong_answer, std::move(reason), std::move(expected), std::move(seen)};
}

Failed unclean(std::string reason, std::string_view field) {
    return {Finding::leaked, std::move(reason), fmt::format("no {} in a replay", field), fmt::format("{}: …", field)};
}

}  // namespace

std::optional<Failed> differing_status(const Response& first, const Response& again) {
    if (first.status == again.status) return std::nullopt;
    return different(fmt::format("the first try was answered {}, its retry {}", first.status, again.status),
                     std::to_string(first.status), std::to_string(again.status));
}

std::optional<Failed> differing_answer(const Response& first, const Response& again) {
    if (auto status = differing_status(first, again)) return status;
    if (first.body != again.body) {
        const std::string expected = fmt::format("{} bytes", first.body.size());
        if (again.body.empty()) return different("the replay's body is empty", expected, "0 bytes");
        const auto [at, unused] = std::ranges::mismatch(first.body, again.body);
        return different(fmt::format("the replay's body differs from byte {} on", at - first.body.begin() + 1),
                         expected, fmt::format("{} bytes", again.body.size()));
    }
    for (const std::string_view name : answer_fields)
        if (first.value(name) != again.value(name))
            return different(fmt::format("the replay's {} differs", name), shown(first.value(name)),
                             shown(again.value(name)));
    return std::nullopt;
}

std::optional<Failed> unclean_replay(const Response& first, const Response& again) {
    // A cookie with another value is one that was made for this answer.
    for (const Header& field : again.fields)
        if (http::same_name(field.name, "Set-Cookie") && std::ranges::find(first.fields, field) != first.fields.end())
            return unclean("the replay sets the first caller's cookie again", "Set-Cookie");
    for (const std::string_view name : personal_fields)
        if (again.value(name)) return unclean(fmt::format("the replay has {}", name), name);
    for (const std::string_view name : foreign_fields)
        if (again.value(name)) return unclean(fmt::format("the replay has the hop-by-hop field {}", name), name);
    for (const std::string_view name : single_fields)
        if (const std::size_t count = again.count(name); count > 1)
            return Failed{Finding::wrong_answer, fmt::format("the replay has {} {} times", name, count),
                          fmt::format("{} once", name), fmt::format("{} times", count)};
    return std::nullopt;
}

}  // namespace semel::verify
