// An HTTP request and its answer as values: what is called, and what was said.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace semel {

struct HttpField {
    std::string name{};
    std::string value{};  ///< without white space around it
    bool operator==(const HttpField&) const = default;
};

struct HttpRequest {
    std::string method = "POST";
    std::string url{};  ///< http:// or https://
    std::vector<HttpField> fields{};
    std::string body{};
    bool operator==(const HttpRequest&) const = default;
};

struct HttpAnswer {
    int status = 0;
    std::vector<HttpField> fields{};  ///< in the order they came; none of a trailer
    std::string body{};
    bool whole = true;  ///< false: the body is longer than was asked for, and cut

    /// The first value of that name, upper and lower case aside.
    [[nodiscard]] std::optional<std::string_view> value(std::string_view name) const;
    bool operator==(const HttpAnswer&) const = default;
};

/// Files in PEM.
struct TlsFiles {
    std::string ca{};           ///< whose certificates are trusted; empty: the system's
    std::string certificate{};  ///< shown to the server, with `key`; empty: none
    std::string key{};
    bool operator==(const TlsFiles&) const = default;
};

}  // namespace semel
