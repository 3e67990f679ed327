#include "verify/counter.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace semel::verify {
namespace {

constexpr Duration timeout = std::chrono::seconds(10);

TEST(VerifyCounter, ReadsWholeNumbersOnly) {
    EXPECT_EQ(whole_number("7"), 7);
    EXPECT_EQ(whole_number(" 12\r\n"), 12);
    EXPECT_EQ(whole_number("-1"), -1);
    for (const std::string_view text : {"", " ", "1.0", "1e3", "1 2", "x", "99999999999999999999"})
        EXPECT_FALSE(whole_number(text)) << text;
}

TEST(VerifyCounter, RunsACommand) {
    const auto counter = count_by_command("printf ' 41\\n' | cat", timeout);
    EXPECT_FALSE(counter->per_intent());
    const auto counted = counter->count({});
    ASSERT_TRUE(counted) << counted.failure().message;
    EXPECT_EQ(*counted, 41);
}

TEST(VerifyCounter, RunsACommandPerIntent) {
    const auto counter = count_by_command("test {{key}} = k1 && echo {{n}}", timeout);
    EXPECT_TRUE(counter->per_intent());
    const auto counted = counter->count({.key = "k1", .uuid = "u", .number = 3});
    ASSERT_TRUE(counted) << counted.failure().message;
    EXPECT_EQ(*counted, 3);
}

TEST(VerifyCounter, SaysWhatIsWrongWithACommand) {
    struct Row {
        const char* command;
        std::string_view why;
    };
    for (const Row& row :
         {Row{"echo many", "it printed \"many\\x0a\", which is no whole number"},
          Row{"echo 1; exit 3", "it ended with exit code 3"}, Row{"kill -9 $$", "it ended with exit code 137"},
          Row{"yes", "it prints more than a number"}, Row{"true", "it printed \"\", which is no whole number"}}) {
        const auto counted = count_by_command(row.command, timeout)->count({});
        ASSERT_FALSE(counted) << row.command;
        EXPECT_TRUE(counted.failure().message.ends_with(row.why)) << counted.failure().message;
    }
}

TEST(VerifyCounter, EndsACommandThatDoesNotEnd) {
    // Neither a child that keeps the output open, nor a shell that closed it.
    for (const char* command : {"sleep 60 & echo 1", "exec >&-; sleep 60"}) {
        const auto began = std::chrono::steady_clock::now();
        const auto counted = count_by_command(command, std::chrono::milliseconds(100))->count({});
        ASSERT_FALSE(counted) << command;
        EXPECT_NE(counted.failure().message.find("--timeout"), std::string::npos) << counted.failure().message;
        EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(30));
    }
}

TEST(VerifyCounter, RefusesPlacesWithoutEffects) {
    for (const char* store : {"", "mysql://h/d", "sqlite:", "sqlite:/no/such/file", "sqlite:/"}) {
        const auto counter = count_by_sql(store, "select 1", timeout);
        ASSERT_FALSE(counter) << store;
        EXPECT_EQ(counter.failure().code, Code::invalid);
    }
    const auto counter = count_by_sql("mysql://u:hunter2@h/d", "select 1", timeout);
    ASSERT_FALSE(counter);
    EXPECT_EQ(counter.failure().message.find("hunter2"), std::string::npos);
}

}  // namespace
}  // namespace semel::verify
