// Which route a request is for.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.hpp"
#include "semel/result.hpp"

namespace semel::gateway {

/// Reads `METHOD PATH`. The method is in capitals, or `*`; the path is plain (http::is_plain_path), without a query, with
/// `{name}` for one whole segment and `*` for the last one and all that follows. `invalid` says what would be right.
Result<Match> parse_match(std::string_view text);

/// Whether every request of `later` is one of `earlier`, so that `later` behind it is never reached.
bool covers(const Match& earlier, const Match& later);

/// The routes of a configuration, which has to outlive the table and must not move. Safe to use from many threads.
///
/// Paths are compared as they are written, byte for byte; a slash at the end counts. `{name}` takes one segment that is
/// not empty; a last `*` takes the rest, which may be empty: `/v1/*` takes `/v1/` and `/v1/a/b`, not `/v1`.
class RouteTable {
public:
    explicit RouteTable(const std::vector<Route>& routes);

    /// The first listed route that matches, or nullptr. `path` is without query. Allocates nothing. Time: that of a
    /// search among the routes without `{}` and `*`, and a look at each of the others.
    [[nodiscard]] const Route* find(std::string_view method, std::string_view path) const;

    /// Whether an upstream that reads paths more generously than they are written may take this one for a path of a route
    /// whose requests have keys: percent-encodings decoded (`%2F` and `%5C` as slashes, or not), empty segments left
    /// out, `.` and `..` resolved before or after that, a slash at the end ignored. To be asked, and refused, for paths
    /// that are not plain: `/v1//payments` must not get past the route `/v1/payments`.
    [[nodiscard]] bool could_match_normalised(std::string_view method, std::string_view path) const;

private:
    struct Exact {
        std::string path;
        std::uint32_t index;
    };
    struct Pattern {
        std::string prefix;                      ///< up to the first `{}` or `*`
        std::vector<std::string_view> segments;  ///< behind the prefix
        std::uint32_t index;
    };
    [[nodiscard]] bool takes_method(std::uint32_t index, std::string_view method) const;
    [[nodiscard]] bool matches_segments(const Route& route, const std::vector<std::string>& segments) const;

    const std::vector<Route>* routes_;
    std::vector<Exact> exact_{};  ///< sorted by path, then by index
    std::vector<Pattern> patterns_{};
};

}  // namespace semel::gateway
