// The query of a target as parameters, `a=1&b=2`, for what we serve ourselves.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace semel::http {

/// The parameters of a query, each at most once; percent-encodings and '+' decoded.
class Query {
public:
    /// Nothing: a parameter is there twice, or a percent-encoding is broken.
    static std::optional<Query> parse(std::string_view text);

    [[nodiscard]] std::optional<std::string> find(std::string_view name) const;
    /// The first name that is not one of these.
    [[nodiscard]] std::optional<std::string> unknown(std::initializer_list<std::string_view> known) const;

private:
    std::vector<std::pair<std::string, std::string>> all_;
};

}  // namespace semel::http
