// Counting by a query on PostgreSQL.
#include <gtest/gtest.h>

#include "support/postgres.hpp"
#include "verify/counter.hpp"

namespace semel::verify {
namespace {

constexpr Duration timeout = std::chrono::seconds(10);

std::unique_ptr<Counter> counter_of(const test::TestDatabase& database, const std::string& query) {
    auto counter = count_by_sql(database.uri(), query, timeout);
    EXPECT_TRUE(counter);
    return std::move(*counter);
}

TEST(VerifyPostgresCounter, CountsWhatIsCommitted) {
    const test::TestDatabase database;
    test::TestConnection application(database.uri());
    application.run("create table charges (reference text)");
    const auto all = counter_of(database, "select count(*) from charges");
    const auto own = counter_of(database, "select count(*) from charges where reference = '{{uuid}}'");
    const Intent intent{.key = "k", .uuid = "u", .number = 1};
    for (int i = 0; i < 3; ++i) {
        const auto counted = all->count(intent);
        ASSERT_TRUE(counted) << counted.failure().message;
        EXPECT_EQ(*counted, i);
        application.run(i == 0 ? "insert into charges values ('u')" : "insert into charges values ('other')");
    }
    EXPECT_TRUE(own->per_intent());
    const auto counted = own->count(intent);
    ASSERT_TRUE(counted) << counted.failure().message;
    EXPECT_EQ(*counted, 1);
}

TEST(VerifyPostgresCounter, NeverWrites) {
    const test::TestDatabase database;
    test::TestConnection application(database.uri());
    application.run("create table charges (reference text)");
    for (const char* query : {"insert into charges values ('x') returning 1",
                              "commit; insert into charges values ('x')", "set transaction read write"})
        EXPECT_FALSE(counter_of(database, query)->count({})) << query;
    EXPECT_EQ(application.value("select count(*) from charges"), "0");
}

TEST(VerifyPostgresCounter, SaysWhatIsWrong) {
    const test::TestDatabase database;
    struct Row {
        const char* query;
        std::string_view why;
    };
    for (const Row& row : {Row{"select count(*) from nothing", "\"nothing\" does not exist"},
                           Row{"select 'many'", "its first column is no whole number"},
                           Row{"select 1 where false", "it gave 0 rows, not one"}}) {
        const auto counted = counter_of(database, row.query)->count({});
        ASSERT_FALSE(counted) << row.query;
        EXPECT_NE(counted.failure().message.find(row.why), std::string::npos) << counted.failure().message;
    }
}

TEST(VerifyPostgresCounter, ConnectsAgain) {
    const test::TestDatabase database;
    const auto counter = counter_of(database, "select 7");
    ASSERT_TRUE(counter->count({}));
    test::TestConnection application(database.uri());
    application.value(
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'semel verify' and datname = "
        "current_database()");
    EXPECT_FALSE(counter->count({})) << "the connection was cut";
    const auto counted = counter->count({});
    ASSERT_TRUE(counted) << counted.failure().message;
    EXPECT_EQ(*counted, 7);
}

}  // namespace
}  // namespace semel::verify
