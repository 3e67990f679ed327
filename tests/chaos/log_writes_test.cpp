#include "stores/sqlite/log_writes.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>

#include "stores/sqlite/database.hpp"
#include "support/counted_file.hpp"
#include "support/temp_folder.hpp"

namespace semel::sqlite {
namespace {

using test::opened;

struct GatheredLog : testing::Test {
    GatheredLog() {
        connection = opened(path);
        must(
            "pragma journal_mode=wal; pragma synchronous=normal; pragma wal_autocheckpoint=0;"
            "create table t (n integer primary key, text text)");
        EXPECT_EQ(sqlite3_file_control(connection.get(), "main", SQLITE_FCNTL_JOURNAL_POINTER, &log), SQLITE_OK);
        counted.emplace(log);
        writes.attach(log);
    }

    void must(const char* sql) {
        const Status done = run(connection.get(), sql);
        EXPECT_TRUE(done) << done.failure().message;
    }
    void begin() { must("begin immediate"); }
    static std::string asked(sqlite3* of, const char* sql) {
        auto statement = Statement::prepare(of, sql);
        EXPECT_TRUE(statement);
        EXPECT_EQ(statement->step(), SQLITE_ROW);
        return statement->bytes(0);
    }
    /// What another process sees, and what is found after a crash: the files as they are now, recovered.
    void expect_everywhere(const char* sql, const std::string& wanted) {
        EXPECT_EQ(asked(connection.get(), sql), wanted);
        EXPECT_EQ(asked(opened(path).get(), sql), wanted);
        const std::string copy = (folder.path() / "copy.db").string();
        for (const char* part : {"", "-wal"})
            std::filesystem::copy_file(path + part, copy + part, std::filesystem::copy_options::overwrite_existing);
        std::filesystem::remove(copy + "-shm");
        const Connection recovered = opened(copy);
        EXPECT_EQ(asked(recovered.get(), "pragma integrity_check"), "ok");
        EXPECT_EQ(asked(recovered.get(), sql), wanted);
    }

    static constexpr const char* thousand_rows =
        "with recursive k(n) as (select 1 union all select n + 1 from k where n < 1000)"
        "insert into t select n, hex(zeroblob(500)) from k";

    test::TempFolder folder;
    std::string path = (folder.path() / "t.db").string();
    LogWrites writes;
    sqlite3_file* log = nullptr;
    std::optional<test::CountedFile> counted;
    Connection connection;
};

TEST_F(GatheredLog, OfATransactionIsWrittenInFewCallsAndSeenByEverybody) {
    begin();
    must(thousand_rows);
    EXPECT_EQ(counted->writes, 0) << "written before the commit";
    must("commit");
    EXPECT_GT(counted->writes, 0);
    EXPECT_LT(counted->writes, 20) << "some 260 pages were to be gathered";
    expect_everywhere("select count(*) from t", "1000");
}

TEST_F(GatheredLog, OfATransactionLargerThanItsCacheHoldsThePagesAsTheyWereLast) {
    must("pragma cache_size=10");
    begin();
    must(thousand_rows);
    for (int i = 0; i < 3; ++i) must("update t set text = substr(text, 2)");  // pages that are in the log already
    must("delete from t where n % 3 = 0");
    must("commit");
    expect_everywhere("select count(*) || ' ' || sum(length(text)) from t", "667 664999");
}

TEST_F(GatheredLog, ThatCannotBeWrittenFailsTheCommitAndLeavesNothing) {
    must("insert into t values (1, 'first')");
    for (const int refused : {1, 2, 3}) {
        begin();
        must("delete from t");
        must(thousand_rows);
        counted->writes = 0;
        counted->refused_from = refused;
        EXPECT_FALSE(run(connection.get(), "commit"));
        counted->refused_from = test::CountedFile::no_call;
        if (sqlite3_get_autocommit(connection.get()) == 0) must("rollback");
        writes.discard();
        expect_everywhere("select count(*) from t", "1");
    }
    begin();
    must("insert into t values (2, 'second')");
    must("commit");
    expect_everywhere("select count(*) from t", "2");
}

TEST_F(GatheredLog, ThatCouldNotBeWrittenIsNotWrittenLater) {
    must("insert into t values (0, 'first')");  // what follows it is gathered
    begin();
    must(thousand_rows);
    counted->writes = 0;
    counted->refused_from = 1;
    EXPECT_FALSE(run(connection.get(), "commit"));  // its caller is told that nothing was done
    counted->refused_from = test::CountedFile::no_call;
    const int refused = counted->writes;
    EXPECT_NE(log->pMethods->xSync(log, SQLITE_SYNC_NORMAL), SQLITE_OK);
    EXPECT_EQ(counted->writes, refused);
    expect_everywhere("select count(*) from t", "1");
}

TEST_F(GatheredLog, OfARolledBackTransactionIsForgotten) {
    must("pragma cache_size=10");
    begin();
    must(thousand_rows);
    must("rollback");
    writes.discard();
    begin();
    must("insert into t values (7, 'seven')");
    must("commit");
    expect_everywhere("select group_concat(n) from t", "7");
}

TEST_F(GatheredLog, OfARolledBackTransactionIsNotWrittenOverWhatAnotherCommits) {
    must("pragma cache_size=10");
    for (const bool closed : {false, true}) {
        begin();
        must("delete from t");
        must(thousand_rows);
        must("rollback");
        if (!closed) writes.discard();
        const Connection other = opened(path);
        const Status done = run(other.get(),
                                "pragma wal_autocheckpoint=0; with recursive k(n) as (select 1 union all select n + 1 "
                                "from k where n < 300) insert or replace into t select n, hex(zeroblob(500)) from k");
        ASSERT_TRUE(done) << done.failure().message;
        if (closed) {
            connection.reset();
        } else {
            begin();
            must("delete from t where n > 300");
            must("commit");
        }
        auto rows = Statement::prepare(other.get(), "select count(*) || (select * from pragma_integrity_check) from t");
        ASSERT_TRUE(rows) << rows.failure().message;
        ASSERT_EQ(rows->step(), SQLITE_ROW);
        EXPECT_EQ(rows->bytes(0), "300ok");
    }
}

}  // namespace
}  // namespace semel::sqlite
