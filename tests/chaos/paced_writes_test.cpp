#include "stores/sqlite/paced_writes.hpp"

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

struct MovedPages : testing::Test {
    MovedPages() {
        writer = opened(path);
        must(writer.get(),
             "pragma journal_mode=wal; pragma synchronous=full; pragma wal_autocheckpoint=0;"
             "create table t (n integer primary key, text text)");
        mover = opened(path);
        must(mover.get(), "pragma synchronous=full; select count(*) from t");
        sqlite3_file* file = nullptr;
        EXPECT_EQ(sqlite3_file_control(mover.get(), "main", SQLITE_FCNTL_FILE_POINTER, &file), SQLITE_OK);
        counted.emplace(file);
        paced.attach(file);
        must(writer.get(),
             "with recursive k(n) as (select 1 union all select n + 1 from k where n < 1000)"
             "insert into t select n, hex(zeroblob(500)) from k");
    }

    static void must(sqlite3* connection, const char* sql) {
        const Status done = run(connection, sql);
        EXPECT_TRUE(done) << done.failure().message;
    }
    int move() { return sqlite3_wal_checkpoint_v2(mover.get(), "main", SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr); }
    /// All of it is in the database file, without the log.
    void expect_all_moved() {
        const std::string copy = (folder.path() / "copy.db").string();
        std::filesystem::copy_file(path, copy, std::filesystem::copy_options::overwrite_existing);
        const Connection without_log = opened(copy);
        auto statement =
            Statement::prepare(without_log.get(), "select count(*) || (select * from pragma_integrity_check) from t");
        ASSERT_TRUE(statement) << statement.failure().message;
        ASSERT_EQ(statement->step(), SQLITE_ROW);
        EXPECT_EQ(statement->bytes(0), "1000ok");
    }

    test::TempFolder folder;
    std::string path = (folder.path() / "t.db").string();
    PacedWrites paced;
    std::optional<test::CountedFile> counted;
    Connection writer;
    Connection mover;
};

TEST_F(MovedPages, AreSyncedAFewAtATime) {
    paced.pace(true);
    EXPECT_EQ(move(), SQLITE_OK);
    EXPECT_GT(counted->writes, 200);
    EXPECT_EQ(counted->unsynced_max, PacedWrites::writes_max);
    EXPECT_EQ(counted->unsynced, 0);
    expect_all_moved();
}

TEST_F(MovedPages, AreSyncedAtTheEndOnlyWhileOthersWait) {
    EXPECT_EQ(move(), SQLITE_OK);
    EXPECT_GT(counted->unsynced_max, 200);
    EXPECT_EQ(counted->syncs, 1);
    expect_all_moved();
}

TEST_F(MovedPages, AreNotMovedAnyFurtherAfterASyncThatFailed) {
    // A reader keeps the first move from the end of the log: SQLite counts as moved what it does not sync then.
    const Connection reader = opened(path);
    must(reader.get(), "begin; select count(*) from t");
    must(writer.get(), "update t set text = 'later' where n < 500");
    paced.pace(true);
    EXPECT_EQ(move(), SQLITE_OK);
    EXPECT_FALSE(paced.failed());
    must(reader.get(), "commit");
    counted->failing_sync = counted->syncs + 1;
    EXPECT_NE(move(), SQLITE_OK);
    EXPECT_TRUE(paced.failed());
    const int written = counted->writes;
    const int synced = counted->syncs;
    EXPECT_NE(move(), SQLITE_OK) << "a second sync that succeeds proves nothing about the first";
    EXPECT_EQ(counted->writes, written);
    EXPECT_EQ(counted->syncs, synced);
}

}  // namespace
}  // namespace semel::sqlite
