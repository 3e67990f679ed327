// Addresses of peers, and the networks they are in.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "semel/result.hpp"

namespace semel::gateway {

/// A list of networks of IPv4 and IPv6. An IPv4 address written in IPv6 (`::ffff:10.0.0.1`) is that IPv4 address, and
/// in no network of IPv6: `::/0` is all of IPv6, `0.0.0.0/0` all of IPv4.
class Networks {
public:
    /// Addresses and networks: `10.0.0.1`, `10.0.0.0/8`, `::1`, `fd00::/8`. Anything else, and a network with bits after
    /// its prefix, is `invalid`.
    static Result<Networks> parse(const std::vector<std::string>& texts);

    /// Whether the numeric address is in one of them; a zone (`fe80::1%eth0`) does not count. False for other text.
    [[nodiscard]] bool contain(std::string_view address) const;

private:
    struct Network {
        bool v4 = false;
        unsigned bits = 0;
        std::array<unsigned char, 16> first{};  // of IPv4 the first four
    };
    std::vector<Network> all_;
};

}  // namespace semel::gateway
