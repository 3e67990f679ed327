// The embedded store under bad luck: killed processes, a second owner, a full disk, a damaged file.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "semel/committer.hpp"
#include "semel/sqlite.hpp"
#include "support/commands.hpp"
#include "support/temp_folder.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

std::string file(const TempFolder& folder) { return (folder.path() / "semel.db").string(); }

TEST(SqliteFaults, ASecondOwnerIsRefusedAndToldWhoOwnsIt) {
    const TempFolder folder;
    auto store = sqlite::open({.path = file(folder)}).value();
    const auto second = sqlite::open({.path = file(folder)});
    ASSERT_FALSE(second);
    EXPECT_EQ(second.failure().code, Code::unavailable);
    EXPECT_NE(second.failure().message.find("process " + std::to_string(getpid()) + " owns it"), std::string::npos)
        << second.failure().message;
    // Reading beside the owner is fine; writing is not.
    auto reader = sqlite::open({.path = file(folder), .access = sqlite::Access::read}).value();
    EXPECT_TRUE(reader->list({}, "", 10));
    EXPECT_FALSE(reader->session());
    EXPECT_FALSE(reader->sweep(1));
}

TEST(SqliteFaults, ANewerSchemaIsRefusedAndReadingCreatesNoFile) {
    const TempFolder folder;
    EXPECT_FALSE(sqlite::open({.path = file(folder), .access = sqlite::Access::read}));
    EXPECT_FALSE(std::filesystem::exists(file(folder)));
    sqlite::open({.path = file(folder)}).value().reset();
    sqlite3* db = nullptr;
    sqlite3_open(file(folder).c_str(), &db);
    sqlite3_exec(db, "update semel_meta set value = value + 1 where name = 'schema'", nullptr, nullptr, nullptr);
    sqlite3_close(db);
    for (const auto access : {sqlite::Access::own, sqlite::Access::read}) {
        const auto refused = sqlite::open({.path = file(folder), .access = access});
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.failure().code, Code::invalid);
        EXPECT_NE(refused.failure().message.find("newer semel"), std::string::npos) << refused.failure().message;
    }
}

TEST(SqliteFaults, WhatAnotherConnectionWroteIsWhatTheHoldersNextCommandMeets) {
    const TempFolder folder;
    auto store = sqlite::open({.path = file(folder)}).value();
    const auto session = store->session().value();
    const Claim removed = claim("removed");
    const Claim damaged = claim("damaged");
    const auto of_removed = as<Claimed>(execute(*session, removed));
    const auto of_damaged = as<Claimed>(execute(*session, damaged));
    sqlite3* db = nullptr;
    sqlite3_open(file(folder).c_str(), &db);
    EXPECT_EQ(sqlite3_exec(db, "delete from semel_operation where key = 'removed'", nullptr, nullptr, nullptr), 0);
    EXPECT_EQ(sqlite3_exec(db, "update semel_operation set token = 99", nullptr, nullptr, nullptr), 0);
    EXPECT_EQ(sqlite3_changes(db), 1);
    sqlite3_close(db);
    EXPECT_TRUE(is<Fenced>(execute(*session, Settle{holder(removed, of_removed), {200, "x", true}})));
    const Group settle = lone(Settle{holder(damaged, of_damaged), {200, "x", true}});
    const auto executed = session->execute(std::span(&settle, 1)).value();
    ASSERT_FALSE(executed.answers[0]);
    EXPECT_EQ(executed.answers[0].failure().code, Code::corrupt);
}

TEST(SqliteFaults, AFileThatIsNoDatabaseIsLeftAlone) {
    const TempFolder folder;
    const std::string text(10000, 'x');
    std::ofstream(file(folder)) << text;
    EXPECT_EQ(sqlite::open({.path = file(folder)}).failure().code, Code::corrupt);
    EXPECT_EQ(std::filesystem::file_size(file(folder)), text.size());
    EXPECT_EQ(sqlite::open({.path = "/nowhere/at/all/semel.db"}).failure().code, Code::invalid);
    EXPECT_EQ(sqlite::open({.path = ""}).failure().code, Code::invalid);
}

/// A child that claims and settles as fast as it can and reports what was acknowledged through a pipe, until killed.
[[noreturn]] void claim_until_killed(const std::string& path, int report, int round) {
    auto store = sqlite::open({.path = path}).value();
    auto committer = Committer::start(*store).value();
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            for (int i = 0;; ++i) {
                const std::string key = std::to_string(round) + "-" + std::to_string(t) + "-" + std::to_string(i);
                const Claim command = claim(key);
                const auto answer = committer->claim(command).value();
                const auto say = [&](char what) {
                    const std::string line = what + key + "\n";
                    if (write(report, line.data(), line.size()) < 0) _exit(1);
                };
                say('c');
                if (!std::get<Ok>(
                         committer->settle(holder(command, std::get<Claimed>(answer)), {200, key, true}).value())
                         .state)
                    _exit(1);
                say('s');
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    _exit(1);
}

TEST(SqliteFaults, AKilledOwnerLosesNothingAcknowledgedAndItsLeasesAreUnknown) {  // I5, I10
    const TempFolder folder;
    std::size_t claimed_in_all = 0;
    std::size_t unknown_in_all = 0;
    for (int round = 0; round < 10; ++round) {
        int pipe_ends[2];
        ASSERT_EQ(pipe(pipe_ends), 0);
        const pid_t child = fork();
        if (child == 0) {
            close(pipe_ends[0]);
            claim_until_killed(file(folder), pipe_ends[1], round);
        }
        close(pipe_ends[1]);
        // Kill it in the middle: when it has said so many things.
        std::string said;
        char buffer[4096];
        while (std::ranges::count(said, '\n') < 100 + round * 37) {
            const ssize_t got = read(pipe_ends[0], buffer, sizeof buffer);
            ASSERT_GT(got, 0);
            said.append(buffer, static_cast<std::size_t>(got));
        }
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        ssize_t got = 0;
        while ((got = read(pipe_ends[0], buffer, sizeof buffer)) > 0)
            said.append(buffer, static_cast<std::size_t>(got));
        close(pipe_ends[0]);

        auto store = sqlite::open({.path = file(folder)}).value();
        std::istringstream lines(said);
        for (std::string line; std::getline(lines, line);) {
            const auto record = store->find(operation(line.substr(1)).id()).value();
            ASSERT_TRUE(record) << line << " was acknowledged and is gone";
            ++claimed_in_all;
            if (line[0] == 's') {
                EXPECT_EQ(record->state, State::settled) << line;
                EXPECT_EQ(record->outcome.body, line.substr(1));
            } else if (record->state != State::settled) {
                EXPECT_EQ(record->state, State::unknown) << line;
                ++unknown_in_all;
            }
        }
        EXPECT_TRUE(store->list({.state = State::running}, "", 10)->records.empty());
    }
    EXPECT_GE(claimed_in_all, 1000U);
    EXPECT_GE(unknown_in_all, 1U) << "no kill hit an open operation";
}

/// Claims until refused, then settles everything it holds: the refusal must come while there is room for that.
void fill_until_refused(Store& store, std::size_t body_bytes) {
    auto session = store.session().value();
    std::vector<std::pair<Claim, Claimed>> held;
    bool refused = false;
    for (int i = 0; i < 100000 && !refused; ++i) {
        const Claim command = claim("k" + std::to_string(i));
        const Group group = lone(command);
        auto executed = session->execute(std::span(&group, 1));
        ASSERT_TRUE(executed) << executed.failure().message;
        if (!executed->answers[0]) {
            EXPECT_EQ(executed->answers[0].failure().code, Code::exhausted) << executed->answers[0].failure().message;
            refused = true;
            break;
        }
        const Claimed mine = as<Claimed>(executed->answers[0]->front());
        // One in four stays open.
        if (i % 4 == 0 && held.size() < 64)
            held.emplace_back(command, mine);
        else
            as<Ok>(execute(*session, Settle{holder(command, mine), {200, std::string(body_bytes, 'x'), true}}));
    }
    ASSERT_TRUE(refused) << "the store never became full";
    ASSERT_EQ(held.size(), 64U);
    // I9: the open ones settle; what was there is there; nothing was evicted.
    for (const auto& [command, mine] : held)
        as<Ok>(execute(*session, Settle{holder(command, mine), {200, std::string(body_bytes, 'y'), true}}));
    for (const auto& [command, mine] : held)
        EXPECT_TRUE(is<Replay>(execute(*session, claim(command.operation.key.text()))));
    EXPECT_TRUE(is<Replay>(execute(*session, claim("k1"))));
}

TEST(SqliteFaults, AFullStoreRefusesClaimsWhileThereIsRoomToSettle) {  // I9
    const TempFolder folder;
    auto store = sqlite::open({.path = file(folder), .reserve_bytes = 0, .file_bytes_max = 4 << 20}).value();
    fill_until_refused(*store, 2000);
}

TEST(SqliteFaults, AFullDiskRefusesClaimsWhileThereIsRoomToSettle) {  // I9
    // A disk of 16 MB in a mount namespace of a child's own.
    const TempFolder folder;
    const pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS | (getuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
            mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=16m") != 0) {
            std::fprintf(stderr, "no small disk to be had: %s\n", std::strerror(errno));
            _exit(2);
        }
        auto store = sqlite::open({.path = file(folder), .reserve_bytes = 6 << 20}).value();
        fill_until_refused(*store, 2000);
        // Now somebody else fills the disk to the last byte.
        {
            std::ofstream hog(folder.path() / "hog");
            const std::string block(4096, 'h');
            while (hog.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
            }
        }
        auto session = store->session().value();
        const Group group = lone(claim("on a full disk"));
        auto executed = session->execute(std::span(&group, 1));
        const bool told = !executed ? executed.failure().code == Code::exhausted
                                    : !executed->answers[0] && executed->answers[0].failure().code == Code::exhausted;
        EXPECT_TRUE(told);
        // With room again everything goes on.
        std::filesystem::remove(folder.path() / "hog");
        EXPECT_TRUE(is<Replay>(execute(*session, claim("k1"))));
        store.reset();
        _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace semel::test
