// Who may ask what of the ledger: tokens, each of one tenant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"

namespace semel::api {

struct Roles {
    bool hold = false;     ///< claim, renew, checkpoint, settle, release, abandon, find
    bool read = false;     ///< find
    bool resolve = false;  ///< resolve, find
    bool operator==(const Roles&) const = default;
};

/// A credential as it is configured.
struct TokenOptions {
    std::string token{};
    std::string name{};    ///< who it is, for the record: what resolve writes down
    std::string tenant{};  ///< whose operations; never empty
    Roles roles{};
};

/// Whoever showed a token.
struct Caller {
    std::string name{};
    std::string tenant{};
    Roles roles{};
};

/// Only hashes of the tokens are kept. Thread safe.
class Tokens {
public:
    explicit Tokens(std::span<const TokenOptions> options);

    /// Nothing: no such token. The time it takes does not depend on what the tokens are.
    [[nodiscard]] const Caller* find(std::string_view token) const;

private:
    struct Known {
        Sha256 digest;
        Caller caller;
    };
    std::vector<Known> known_;
};

}  // namespace semel::api
