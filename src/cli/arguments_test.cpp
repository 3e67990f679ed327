#include "cli/arguments.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace semel::cli {
namespace {

using testing::HasSubstr;

TEST(Arguments, ACountIsDecimalDigitsWithinItsLimits) {
    EXPECT_EQ(*parse_count("--limit", "1", 1, 10), 1U);
    EXPECT_EQ(*parse_count("--limit", "10", 1, 10), 10U);
    EXPECT_EQ(*parse_count("--seed", "18446744073709551615", 0, UINT64_MAX), UINT64_MAX);
    for (const char* bad :
         {"", "0", "11", "-1", "+1", " 1", "1 ", "1.0", "1e1", "0x1", "ten", "18446744073709551616"}) {
        const auto count = parse_count("--limit", bad, 1, 10);
        ASSERT_FALSE(count) << bad;
        EXPECT_EQ(count.failure().code, Code::invalid);
        EXPECT_THAT(count.failure().message, HasSubstr("--limit")) << bad;
        EXPECT_THAT(count.failure().message, HasSubstr("from 1 to 10")) << bad;
    }
}

TEST(Arguments, AnOperationIsNamedByScopeAndKeyOrByItsId) {
    const Operation operation{Scope::parse("acme/payments#2").value(), Key::parse("k 1").value()};
    const auto by_name = parse_operation({"acme/payments#2", "k 1"});
    ASSERT_TRUE(by_name);
    EXPECT_EQ(by_name->id, operation.id());
    EXPECT_EQ(by_name->text(), "acme/payments#2 k 1");
    const auto by_id = parse_operation({"00112233445566778899aabbccddeeFF", std::nullopt});
    ASSERT_TRUE(by_id);
    EXPECT_EQ(by_id->text(), "00112233445566778899aabbccddeeff");
    EXPECT_EQ(by_id->operation, std::nullopt);
    EXPECT_FALSE(parse_operation({"acme/payments", std::nullopt}));
    EXPECT_FALSE(parse_operation({"00112233", std::nullopt}));
    EXPECT_FALSE(parse_operation({"acme/payments", ""}));
    EXPECT_FALSE(parse_operation({"acme/", "k"}));
}

TEST(Arguments, AScopeInAFilterAsksOnlyForWhatIsWritten) {
    const auto filter = [](const char* scope) { return parse_filter({.scope = scope}).value(); };
    EXPECT_EQ(filter("payments").scope_name, "payments");
    EXPECT_EQ(filter("payments").tenant, std::nullopt);
    EXPECT_EQ(filter("payments").generation, std::nullopt);
    EXPECT_EQ(filter("acme/payments").tenant, "acme");
    EXPECT_EQ(filter("/payments").tenant, "");
    EXPECT_EQ(filter("payments#0").generation, 0U);
    EXPECT_EQ(filter("acme/payments#3").generation, 3U);
}

TEST(Arguments, AFilterRefusesWhatItCannotMean) {
    EXPECT_FALSE(parse_filter({.scope = "acme/payments", .tenant = "other"}));
    EXPECT_TRUE(parse_filter({.scope = "acme/payments", .tenant = "acme"}));
    EXPECT_FALSE(parse_filter({.tenant = "a/b"}));
    EXPECT_FALSE(parse_filter({.state = "Unknown"}));
    EXPECT_FALSE(parse_filter({.older_than = "5"}));
    EXPECT_FALSE(parse_filter({.newer_than = "5 m"}));
    EXPECT_FALSE(parse_filter({.correlation = ""}));
    EXPECT_FALSE(parse_filter({.correlation = "a\nb"}));
}

TEST(Arguments, AStatusMayBeNegativeAndMustFit) {
    EXPECT_EQ(*parse_status("--happened", "-1"), -1);
    EXPECT_EQ(*parse_status("--happened", "201"), 201);
    for (const char* bad : {"", "ok", "2147483648", "201 ", "2e2"})
        EXPECT_FALSE(parse_status("--happened", bad)) << bad;
}

TEST(Arguments, AFileIsReadWholeOrRefused) {
    const std::string path = testing::TempDir() + "/semel_arguments_test";
    std::ofstream(path, std::ios::binary) << std::string("a\0b\n", 4);
    EXPECT_EQ(*read_file(path, 4), std::string("a\0b\n", 4));
    EXPECT_THAT(read_file(path, 3).failure().message, HasSubstr("longer than 3 bytes"));
    std::remove(path.c_str());
    EXPECT_EQ(read_file(path, 3).failure().code, Code::invalid);
    EXPECT_EQ(read_file(testing::TempDir(), 3).failure().code, Code::invalid);
}

}  // namespace
}  // namespace semel::cli
