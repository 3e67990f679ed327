// What an operation takes on disk for ever: at most 150 bytes once its answer was dropped, indexes included.
#include <gtest/gtest.h>

#include <filesystem>

#include "semel/committer.hpp"
#include "semel/sqlite.hpp"
#include "stores/sqlite/database.hpp"
#include "support/commands.hpp"
#include "support/postgres.hpp"
#include "support/temp_folder.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t bytes_max = 150;
constexpr std::size_t operations = 20'000;
constexpr std::size_t batch = 500;

/// Claims and settles them with an answer that may be dropped at once, and sweeps until nothing is left to drop.
void live_and_be_swept(Store& store) {
    const auto session = store.session().value();
    for (std::size_t from = 0; from < operations; from += batch) {
        std::vector<Claim> claims;
        std::vector<Group> groups;
        for (std::size_t i = from; i < from + batch; ++i) {
            claims.push_back(claim("payment-" + std::to_string(i)));
            claims.back().policy.retention.response = 0s;
            groups.push_back(lone(claims.back()));
        }
        const auto claimed = session->execute(groups).value();
        groups.clear();
        for (std::size_t i = 0; i < batch; ++i) {
            const auto mine = as<Claimed>(claimed.answers[i].value().front());
            groups.push_back(lone(Settle{holder(claims[i], mine), {201, std::string(256, 'x'), true}}));
        }
        const auto settled = session->execute(groups).value();
        for (const GroupAnswer& answer : settled.answers) ASSERT_TRUE(is<Ok>(answer.value().front()));
    }
    std::uint64_t dropped = 0;
    for (bool more = true; more;) {
        const Swept swept = store.sweep(1000).value();
        dropped += swept.bodies_dropped;
        more = swept.more;
    }
    ASSERT_EQ(dropped, operations);
    EXPECT_FALSE(as<Replay>(execute(*session, claim("payment-7"))).outcome.kept);
}

TEST(Tombstones, TakeAtMost150BytesInSqlite) {
    const TempFolder folder;
    const std::string path = (folder.path() / "semel.db").string();
    {
        const auto store = sqlite::open({.path = path}).value();
        live_and_be_swept(*store);
    }
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &raw), SQLITE_OK);
    const sqlite::Connection connection(raw);
    ASSERT_TRUE(sqlite::run(raw, "vacuum").ok());
    ASSERT_TRUE(sqlite::run(raw, "pragma wal_checkpoint(truncate)").ok());
    EXPECT_LE(std::filesystem::file_size(path) / operations, bytes_max);
}

TEST(Tombstones, TakeAtMost150BytesInPostgres) {
    const TestDatabase database;
    const auto store = postgres::open({.uri = database.uri()}).value();
    live_and_be_swept(*store);
    TestConnection look(database.uri());
    // A row that somebody may still see stays, if only the server's own ANALYZE: until that is over.
    std::size_t each = 0;
    for (int tries = 0; tries < 50; ++tries) {
        look.run("vacuum full semel.operation");
        each = std::stoull(look.value("select pg_total_relation_size('semel.operation')")) / operations;
        if (each <= bytes_max) break;
        look.run("select pg_sleep(0.1)");
    }
    EXPECT_LE(each, bytes_max);
}

}  // namespace
}  // namespace semel::test
