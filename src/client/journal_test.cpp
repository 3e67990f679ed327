// What a journal is, for both of them; and what only files have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "semel/client.hpp"

namespace {
// Paths of what was synced, since it was last cleared.
std::vector<std::string> synced;
}  // namespace

// Instead of the C library's: whether something is durable cannot be seen otherwise without a power cut.
extern "C" int fsync(int file) {
    synced.push_back(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(file)));
    return static_cast<int>(syscall(SYS_fsync, file));
}

namespace semel::client {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using State = IntentRecord::State;

IntentRecord record(std::string key, State state = State::begun) {
    return {.key = Key::parse(std::move(key)).value(), .method = "POST", .url = "http://h/", .state = state};
}

class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = fs::temp_directory_path() / "semel-journal-XXXXXX";
        EXPECT_NE(mkdtemp(name.data()), nullptr);
        path_ = name;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() { fs::remove_all(path_); }
    [[nodiscard]] std::string operator/(std::string_view name) const { return path_ / name; }

private:
    fs::path path_;
};

std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> names_in(const std::string& folder) {
    std::vector<std::string> names;
    for (const auto& each : fs::directory_iterator(folder)) names.push_back(each.path().filename());
    std::ranges::sort(names);
    return names;
}

mode_t mode_of(const std::string& path) {
    struct stat found {};
    EXPECT_EQ(stat(path.c_str(), &found), 0) << path;
    return found.st_mode & 0777;
}

class AnyJournal : public testing::TestWithParam<bool> {
protected:
    std::unique_ptr<Journal> journal() {
        return GetParam() ? file_journal(folder_ / "calls").value() : memory_journal();
    }
    TemporaryFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Journals, AnyJournal, testing::Values(false, true),
                         [](const auto& row) { return row.param ? "file" : "memory"; });

TEST_P(AnyJournal, RemembersWhatWasSavedLast) {
    const auto journal = this->journal();
    {
        const auto held = journal->hold("a").value();
        EXPECT_EQ(held->record(), std::nullopt);
        EXPECT_TRUE(held->save(record("k1")));
        EXPECT_TRUE(held->save(record("k1", State::not_executed)));
        EXPECT_EQ(held->record(), std::nullopt) << "as it was when it was taken hold of";
    }
    EXPECT_EQ(journal->hold("a").value()->record(), record("k1", State::not_executed));
    EXPECT_EQ(journal->hold("b").value()->record(), std::nullopt);
}

TEST_P(AnyJournal, AnIntentIsHeldByOneRunAtATime) {
    const auto journal = this->journal();
    for (int i = 0; i < 3; ++i) {
        const auto held = journal->hold("a").value();
        const auto second = journal->hold("a");
        ASSERT_FALSE(second);
        EXPECT_EQ(second.failure().code, Code::contended);
        EXPECT_THAT(second.failure().message, HasSubstr("intent \"a\": another run of it is under way"));
        EXPECT_EQ(journal->forget("a").failure().code, Code::contended);
        EXPECT_TRUE(journal->hold("b"));
    }
}

TEST_P(AnyJournal, Forgets) {
    const auto journal = this->journal();
    EXPECT_FALSE(journal->forget("a").value());
    EXPECT_TRUE(journal->hold("a").value()->save(record("k1")));
    EXPECT_TRUE(journal->forget("a").value());
    EXPECT_FALSE(journal->forget("a").value());
    EXPECT_EQ(journal->hold("a").value()->record(), std::nullopt);
}

TEST_P(AnyJournal, NamesHaveALimit) {
    const auto journal = this->journal();
    EXPECT_EQ(journal->hold("").failure().code, Code::invalid);
    EXPECT_EQ(journal->hold(std::string(intent_bytes_max + 1, 'a')).failure().code, Code::invalid);
    EXPECT_TRUE(journal->hold(std::string(intent_bytes_max, 'a')));
}

TEST(ClientFileJournal, IsReadableByItsOwnerOnlyAndLeavesNothingElse) {
    const TemporaryFolder folder;
    const std::string calls = folder / "deep/state/calls";
    const auto journal = file_journal(calls + "/").value();
    EXPECT_TRUE(journal->hold("invoice-2026-11-17").value()->save(record("k1")));
    EXPECT_THAT(names_in(calls), ElementsAre("invoice-2026-11-17.intent"));
    EXPECT_EQ(mode_of(calls + "/invoice-2026-11-17.intent"), 0600u);
    EXPECT_EQ(mode_of(calls), 0700u);
    EXPECT_EQ(mode_of(folder / "deep"), 0700u);
}

TEST(ClientFileJournal, IsDurableWhoeverMadeIt) {
    const TemporaryFolder folder;
    const std::string calls = folder / "calls";
    for (const std::string_view whose : {"its own", "of a run that died before the sync"}) {
        synced.clear();
        const auto journal = file_journal(calls).value();
        EXPECT_THAT(synced, Contains(fs::path(calls).parent_path().string())) << whose;
        synced.clear();
        EXPECT_TRUE(journal->hold("a").value()->save(record("k1")));
        EXPECT_THAT(synced, ElementsAre(calls + "/a.intent.new", calls)) << whose;
    }
}

TEST(ClientFileJournal, NoNameLeadsOutOfTheFolder) {
    const TemporaryFolder folder;
    const auto journal = file_journal(folder / "calls").value();
    for (const std::string name : {"../x", "..", ".", ".hidden", "a/b", "a b%", "\xc3\xa4", "~"})
        EXPECT_TRUE(journal->hold(name).value()->save(record("k1")));
    EXPECT_THAT(names_in(folder / "calls"),
                ElementsAre("%2E.%2Fx.intent", "%2E..intent", "%2E.intent", "%2Ehidden.intent", "%7E.intent",
                            "%C3%A4.intent", "a%20b%25.intent", "a%2Fb.intent"));
}

TEST(ClientFileJournal, WhatAKilledRunLeftIsNotInTheWay) {
    const TemporaryFolder folder;
    const auto journal = file_journal(folder / "calls").value();
    std::ofstream(folder / "calls/a.lock") << "";
    std::ofstream(folder / "calls/a.intent.new")
        << "half of it, and much longer than what is written over it" << std::string(1000, 'x');
    EXPECT_TRUE(journal->hold("a").value()->save(record("k1")));
    EXPECT_EQ(journal->hold("a").value()->record(), record("k1"));
    EXPECT_THAT(names_in(folder / "calls"), ElementsAre("a.intent"));
}

TEST(ClientFileJournal, BadBytesAreNeverTakenForANewIntent) {
    const TemporaryFolder folder;
    const auto journal = file_journal(folder / "calls").value();
    EXPECT_TRUE(journal->hold("a").value()->save(record("k1")));
    const std::string path = folder / "calls/a.intent";
    const std::string good = content(path);
    for (const std::string& bad :
         {std::string(), std::string("hello\n"), good.substr(0, good.size() - 3), good + "x"}) {
        std::ofstream(path, std::ios::binary) << bad;
        const auto held = journal->hold("a");
        ASSERT_FALSE(held);
        EXPECT_EQ(held.failure().code, Code::corrupt);
        EXPECT_THAT(held.failure().message, HasSubstr(path));
        EXPECT_EQ(content(path), bad) << "it is left for whoever looks into it";
    }
    EXPECT_TRUE(journal->forget("a").value());
    EXPECT_EQ(journal->hold("a").value()->record(), std::nullopt);
}

TEST(ClientFileJournal, SaysWhichFolderCannotBeUsed) {
    const TemporaryFolder folder;
    std::ofstream(folder / "file") << "";
    const auto none = file_journal(folder / "file/calls");
    ASSERT_FALSE(none);
    EXPECT_THAT(none.failure().message, HasSubstr(folder / "file"));
    EXPECT_FALSE(file_journal(""));
}

}  // namespace
}  // namespace semel::client
