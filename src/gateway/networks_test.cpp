#include "gateway/networks.hpp"

#include <gtest/gtest.h>

namespace semel::gateway {
namespace {

TEST(Networks, ContainTheAddressesOfTheirPrefix) {
    const struct {
        std::string network;
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
        {"::/0", "10.0.0.1", false},
        {"::/0", "::ffff:10.0.0.1", false},
        {"10.0.0.0/8", "::ffff:10.0.0.1", true},
        {"10.0.0.0/8", "::ffff:a00:1", true},
        {"::ffff:10.0.0.0/104", "10.1.2.3", true},
        {"::ffff:10.0.0.1", "10.0.0.1", true},
        {"fe80::/10", "fe80::1%eth0", true},
        {"10.0.0.0/8", "", false},
        {"10.0.0.0/8", "10.0.0", false},
        {"10.0.0.0/8", "10.0.0.1:80", false},
        {"10.0.0.0/8", "localhost", false},
        {"::/0", "[::1]", false},
        {"0.0.0.0/0", "010.0.0.1", false},
    };
    for (const auto& row : rows) {
        const auto networks = Networks::parse({row.network});
        ASSERT_TRUE(networks.ok()) << row.network;
        EXPECT_EQ(networks->contain(row.address), row.contained) << row.address << " in " << row.network;
    }
}

TEST(Networks, AreAnyOfAList) {
    const auto networks = Networks::parse({"127.0.0.1", "::1"});
    ASSERT_TRUE(networks.ok());
    EXPECT_TRUE(networks->contain("::1"));
    EXPECT_TRUE(networks->contain("127.0.0.1"));
    EXPECT_FALSE(networks->contain("127.0.0.2"));
    EXPECT_FALSE(Networks::parse({})->contain("127.0.0.1"));
}

TEST(Networks, RefuseWhatIsNoNetwork) {
    for (const std::string text : {"", "localhost", "10.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/8x", "10.0.0.0/-1",
                                   "10.0.0.1/8", "::1/64", "::/129", "[::1]", "10.0.0.0/8/8", "::ffff:0.0.0.0/95"}) {
        const auto networks = Networks::parse({"10.0.0.0/8", text});
        ASSERT_FALSE(networks.ok()) << text;
        EXPECT_EQ(networks.failure().code, Code::invalid);
    }
}

}  // namespace
}  // namespace semel::gateway
