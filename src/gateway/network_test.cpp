#include "gateway/network.hpp"

#include <gtest/gtest.h>

namespace semel::gateway {
namespace {

TEST(Network, ContainsTheAddressesOfItsPrefix) {
    const struct {
        std::string_view network;
        std::string_view address;
        bool contained;
    } rows[] = {
        {"10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "10.0.0.2", false},
        {"10.0.0.0/8", "10.255.0.9", true},
        {"10.0.0.0/8", "11.0.0.0", false},
        {"10.32.0.0/11", "10.63.255.1", true},
        {"10.32.0.0/11", "10.64.0.0", false},
        {"0.0.0.0/0", "203.0.113.7", true},
        {"0.0.0.0/0", "::1", false},
        {"::1", "::1", true},
        {"::1", "0:0:0:0:0:0:0:1", true},
        {"fd00::/8", "fdff::1", true},
        {"fd00::/8", "fe00::1", false},
        {"::/0", "2001:db8::1", true},
        {"10.0.0.0/8", "::ffff:10.0.0.1", true},
        {"10.0.0.0/8", "::ffff:a00:1", true},
        {"::ffff:10.0.0.1", "10.0.0.1", true},
    };
    for (const auto& row : rows) {
        const auto network = Network::parse(row.network);
        const auto address = parse_address_bytes(row.address);
        ASSERT_TRUE(network && address) << row.network << " " << row.address;
        EXPECT_EQ(network->contains(*address), row.contained) << row.address << " in " << row.network;
    }
}

TEST(Network, IsNoOtherText) {
    for (const std::string_view text : {"", "localhost", "10.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/8x",
                                        "10.0.0.0/-1", "10.0.0.1/8", "::1/64", "::/129", "[::1]", "10.0.0.0/8/8"})
        EXPECT_FALSE(Network::parse(text)) << text;
    for (const std::string_view text : {"", "10.0.0", "10.0.0.1:80", "localhost", "[::1]", "010.0.0.1", "fe80::1%eth0"})
        EXPECT_FALSE(parse_address_bytes(text)) << text;
}

}  // namespace
}  // namespace semel::gateway
