#include "consumers/redis/address.hpp"

#include <gtest/gtest.h>

namespace semel::redis {
namespace {

TEST(RedisAddress, IsReadInAllItsForms) {
    const struct {
        const char* url;
        Address address;
        const char* text;
    } rows[] = {
        {"redis://db", {"db", 6379, "", "", 0}, "db:6379/0"},
        {"redis://127.0.0.1:7000/3", {"127.0.0.1", 7000, "", "", 3}, "127.0.0.1:7000/3"},
        {"redis://:s3cret@db:7000/", {"db", 7000, "", "s3cret", 0}, "db:7000/0"},
        {"redis://app:a%40b%2fc@[::1]:7000/1", {"::1", 7000, "app", "a@b/c", 1}, "[::1]:7000/1"},
        {"redis://:a@b:c@db", {"db", 6379, "", "a@b:c", 0}, "db:6379/0"},
    };
    for (const auto& row : rows) {
        const auto address = parse_address(row.url);
        ASSERT_TRUE(address.ok()) << row.url << ": " << address.failure().message;
        EXPECT_EQ(*address, row.address) << row.url;
        EXPECT_EQ(address->text(), row.text);
    }
}

TEST(RedisAddress, ThatIsNoneIsRefusedWithoutShowingThePassword) {
    for (const char* url :
         {"", "db:6379", "redis://", "redis://:s3cret@", "redis://:s3cret@db:0", "redis://:s3cret@db:x",
          "redis://:s3cret@db/x", "redis://:s3cret%4@db", "redis://s3cret@db", "redis://:s3cret@[::1"}) {
        const auto address = parse_address(url);
        ASSERT_FALSE(address.ok()) << url;
        EXPECT_EQ(address.failure().code, Code::invalid);
        EXPECT_NE(address.failure().message.find("(url)"), std::string::npos) << address.failure().message;
        EXPECT_EQ(address.failure().message.find("s3cret"), std::string::npos) << address.failure().message;
    }
}

}  // namespace
}  // namespace semel::redis
