#include "settings/addresses.hpp"

#include <gtest/gtest.h>

namespace semel::settings {
namespace {

TEST(Addresses, ReadsAddressesToListenOn) {
    struct Row {
        const char* written;
        const char* read;
    };
    for (const Row& row : std::vector<Row>{{"127.0.0.1:8080", "127.0.0.1:8080"},
                                           {"localhost:80", "127.0.0.1:80"},
                                           {"[::1]:8080", "[::1]:8080"},
                                           {"[0:0:0:0:0:0:0:1]:8080", "[::1]:8080"},
                                           {"[2001:DB8::1]:1", "[2001:db8::1]:1"},
                                           {"0.0.0.0:0", "0.0.0.0:0"},
                                           {"127.0.0.1", nullptr},
                                           {"127.0.0.1:", nullptr},
                                           {":8080", nullptr},
                                           {"8080", nullptr},
                                           {"::1:8080", nullptr},
                                           {"[::1]", nullptr},
                                           {"[::1", nullptr},
                                           {"[::1]8080", nullptr},
                                           {"[127.0.0.1]:8080", nullptr},
                                           {"[localhost]:8080", nullptr},
                                           {"example.org:80", nullptr},
                                           {"127.0.0.1:65536", nullptr},
                                           {"127.0.0.1:-1", nullptr},
                                           {"127.0.0.1:80x", nullptr},
                                           {"127.0.0.256:80", nullptr},
                                           {"127.1:80", nullptr},
                                           {"", nullptr}}) {
        const auto address = parse_address(row.written);
        EXPECT_EQ(address ? address->text() : "none", row.read == nullptr ? "none" : row.read) << row.written;
    }
    EXPECT_TRUE(parse_address("[0::1]:1")->loopback());
    EXPECT_FALSE(parse_address("[::ffff:127.0.0.1]:1")->loopback()) << "said in another way: rather too careful";
}

TEST(Addresses, ReadsUpstreamServers) {
    struct Row {
        const char* written;
        const char* read;
    };
    for (const Row& row : std::vector<Row>{{"http://127.0.0.1:9000", "http://127.0.0.1:9000"},
                                           {"http://service", "http://service:80"},
                                           {"https://service.example", "https://service.example:443"},
                                           {"https://[::1]:9443", "https://[::1]:9443"},
                                           {"http://service/", nullptr},
                                           {"http://service/path", nullptr},
                                           {"http://service?x", nullptr},
                                           {"http://user@service", nullptr},
                                           {"http://user:password@service", nullptr},
                                           {"http://service:0", nullptr},
                                           {"http://service:65536", nullptr},
                                           {"http://service:", nullptr},
                                           {"http://", nullptr},
                                           {"http://:80", nullptr},
                                           {"HTTP://service", nullptr},
                                           {"ftp://service", nullptr},
                                           {"service:80", nullptr},
                                           {"http://two words", nullptr},
                                           {"", nullptr}}) {
        const auto server = parse_upstream_server(row.written);
        EXPECT_EQ(server ? server->text() : "none", row.read == nullptr ? "none" : row.read) << row.written;
    }
}

}  // namespace
}  // namespace semel::settings
