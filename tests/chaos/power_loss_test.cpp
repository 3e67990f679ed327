// The embedded store on a disk that loses power or fails: what was acknowledged is there afterwards, what was answered
// as not done is not, and a batch is there wholly or not at all.
//
// Every run goes by its seed: it is named in every complaint.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/random.hpp"
#include "semel/committer.hpp"
#include "semel/sqlite.hpp"
#include "support/commands.hpp"
#include "support/temp_folder.hpp"
#include "support/unsafe_disk.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

/// What is wrong, for people. Empty: nothing.
using Complaints = std::vector<std::string>;

/// How the store must answer about an operation once it was opened anew.
struct Told {
    std::optional<State> state{};  // empty: absent
    Token token{};                 // zero: not told
    Attempt attempt{};
    Outcome outcome{};
    std::vector<Checkpoint> checkpoints{};
};

/// One command of a batch, and what it makes of the operation.
struct Sent {
    std::string key{};
    Command command;
    Told after{};
};
using Batch = std::vector<Sent>;

std::optional<std::string> difference(const Told& told, const std::optional<Record>& record) {
    if (!told.state) return record ? std::optional("is there") : std::nullopt;
    if (!record) return "is gone";
    const State wanted = *told.state;
    if (record->state != wanted) return fmt::format("is {} instead of {}", name(record->state), name(wanted));
    if (told.token.value != 0 && record->token != told.token) return "has another token";
    if (record->attempt != told.attempt) return "has another attempt";
    if (record->fingerprint != fingerprint("body")) return "has another fingerprint";
    if (wanted == State::settled && record->outcome != told.outcome) return "has another outcome";  // I2
    if (wanted == State::unknown && !record->doubt) return "has no doubt";
    if (record->checkpoints != told.checkpoints) return "has other checkpoints";
    return std::nullopt;
}

/// What the callers of one store were told, over the lives of all its owners.
class Witness {
public:
    explicit Witness(std::uint64_t seed) : random_(seed) {}

    /// New claims, and something for operations that are open; each operation once.
    Batch make_batch(std::size_t commands_max) {
        Batch batch;
        std::set<std::string> used;
        const std::size_t count = 1 + random_.below(commands_max);
        while (batch.size() < count) {
            const std::string* key =
                open_.empty() || random_.below(2) == 0 ? nullptr : &open_[random_.below(open_.size())];
            if (key == nullptr || !used.insert(*key).second)
                batch.push_back(new_claim());
            else
                batch.push_back(next_command(*key));
        }
        return batch;
    }

    /// Executes the batch as one, and remembers the answers. False: it failed.
    bool execute(Session& session, const Batch& batch) {
        std::vector<Group> groups;
        for (const Sent& sent : batch) groups.push_back(lone(sent.command));
        const auto executed = session.execute(groups);
        if (!executed) {
            code_ = executed.failure().code;
            in_doubt_ = code_ == Code::indeterminate ? batch : Batch{};
            if (code_ == Code::corrupt) complain("", "execute: " + executed.failure().message);
            for (const Sent& sent : batch) told_.try_emplace(sent.key);
            return false;
        }
        for (std::size_t i = 0; i < batch.size(); ++i) {
            if (!executed->answers[i])
                complain(batch[i].key, executed->answers[i].failure().message);
            else
                hear(batch[i], executed->answers[i]->front());
        }
        ++acknowledged_;
        return true;
    }

    /// I5: the store was opened anew, so nobody holds anything any more.
    void owner_died() {
        const auto die = [](Told& told) {
            if (told.state == State::running) told.state = State::unknown;
        };
        for (auto& [key, told] : told_) die(told);
        for (Sent& sent : in_doubt_) die(sent.after);
    }

    /// Everything told against everything there, after the store was opened anew.
    void compare(Store& store) {
        const Batch in_doubt = std::exchange(in_doubt_, {});
        std::optional<bool> happened;
        for (const Sent& sent : in_doubt) {
            const auto record = store.find(operation(sent.key).id());
            if (!record) {
                complain(sent.key, record.failure().message);
                continue;
            }
            const auto without = difference(told_[sent.key], *record);
            const auto with = difference(sent.after, *record);
            if (without && with) complain(sent.key, fmt::format("{} or {}", *without, *with));
            if (without.has_value() == with.has_value()) continue;  // a renewal leaves no trace here
            if (happened.value_or(!with) != !with) complain(sent.key, "a batch is there in part");
            happened = !with;
            if (with) continue;
            told_[sent.key] = sent.after;
            if (*record) told_[sent.key].token = (*record)->token;
        }
        if (happened) ++(*happened ? doubts_.happened : doubts_.did_not);
        std::size_t present = 0;
        for (auto& [key, told] : told_) {
            const auto record = store.find(operation(key).id());
            const auto wrong = record ? difference(told, *record) : record.failure().message;
            if (wrong) complain(key, *wrong);
            if (told.state) ++present;
        }
        count_all(store, present);
        claim_anew(store);
        gather_open();
    }

    [[nodiscard]] const Complaints& complaints() const { return complaints_; }
    [[nodiscard]] std::uint64_t acknowledged() const { return acknowledged_; }
    /// What became of the batches that were answered as `indeterminate`.
    struct Doubts {
        int happened = 0;
        int did_not = 0;
    };
    [[nodiscard]] Doubts doubts() const { return doubts_; }
    /// Of the batch that failed last.
    [[nodiscard]] Code code() const { return code_; }
    [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
    void complain(const std::string& key, const std::string& what) {
        complaints_.push_back(fmt::format("`{}` {}", key, what));
    }

private:
    Sent new_claim() {
        const std::string key = fmt::format("k{}", ++keys_);
        const Claim command = claim(key);
        return {key, command, {State::running, {}, command.attempt, {}, {}}};
    }

    Sent next_command(const std::string& key) {
        const Told& now = told_.at(key);
        Told after = now;
        const Holder mine{operation(key).id(), now.token, now.attempt};
        switch (random_.below(6)) {
            case 0: return {key, Renew{mine}, after};
            case 1: {
                const Checkpoint step{fmt::format("step{}", now.checkpoints.size()),
                                      std::string(random_.below(600), 'c')};
                after.checkpoints.push_back(step);
                return {key, SaveCheckpoint{mine, step}, after};
            }
            case 2:
                if (now.state == State::running && now.checkpoints.empty()) return {key, Release{mine}, {}};
                [[fallthrough]];
            default: {
                // Bodies within a page and over several.
                std::string body(random_.below(4) == 0 ? random_.below(20000) : random_.below(300),
                                 static_cast<char>('a' + random_.below(26)));
                after.state = State::settled;
                after.outcome = {static_cast<std::int32_t>(200 + random_.below(300)), key + body, true};
                after.checkpoints.clear();
                return {key, Settle{mine, after.outcome}, after};
            }
        }
    }

    void hear(const Sent& sent, const Answer& answer) {
        Told after = sent.after;
        if (const auto* claimed = std::get_if<Claimed>(&answer)) {
            if (!tokens_.insert(claimed->token).second) complain(sent.key, "got a token that was given out before");
            if (claimed->token <= token_max_) complain(sent.key, "got a token smaller than an earlier one");
            token_max_ = std::max(token_max_, claimed->token);
            after.token = claimed->token;
        } else if (!is<Ok>(answer)) {
            complain(sent.key, fmt::format("unexpected answer {}", answer.index()));
            return;
        }
        told_[sent.key] = after;
        gather_open();
    }

    /// Nothing more and nothing damaged.
    void count_all(Store& store, std::size_t present) {
        const auto page = store.list({}, "", 1'000'000);
        if (!page) return complain("", page.failure().message);
        if (page->corrupt != 0) complain("", fmt::format("{} rows are corrupt", page->corrupt));
        if (page->records.size() != present)
            complain("", fmt::format("{} records instead of {}", page->records.size(), present));
        // I3: of a grant that nobody was told about, too.
        for (const Record& record : page->records) token_max_ = std::max(token_max_, record.token);
    }

    /// The store goes on: what is settled replays, what is unknown says so, and a new claim gets a new token.
    void claim_anew(Store& store) {
        const auto session = store.session();
        if (!session) return complain("", session.failure().message);
        for (int i = 0; i < 3 && !told_.empty(); ++i) {
            const auto& [key, told] =
                *std::next(told_.begin(), static_cast<std::ptrdiff_t>(random_.below(told_.size())));
            if (!told.state) continue;
            const Group group = lone(claim(key));
            const auto executed = (*session)->execute(std::span(&group, 1));
            if (!executed || !executed->answers[0]) {
                complain(key, "cannot be claimed");
                continue;
            }
            const Answer& answer = executed->answers[0]->front();
            const bool right = told.state == State::settled
                                   ? is<Replay>(answer) && as<Replay>(answer).outcome == told.outcome
                                   : is<Unknown>(answer);
            if (!right) complain(key, fmt::format("unexpected answer {} to a claim", answer.index()));
        }
        if (!execute(**session, {new_claim()})) complain("", "nothing can be claimed any more");
    }

    void gather_open() {
        open_.clear();
        for (const auto& [key, told] : told_) {
            if (told.state == State::running || told.state == State::unknown) open_.push_back(key);
        }
    }

    SeededRandom random_;
    std::map<std::string, Told> told_;
    std::vector<std::string> open_;
    Batch in_doubt_;  // executed, and the answer was `indeterminate`
    std::set<Token> tokens_;
    Token token_max_;
    std::uint64_t keys_ = 0;
    std::uint64_t acknowledged_ = 0;
    Doubts doubts_;
    Code code_ = Code::unavailable;
    Complaints complaints_;
};

/// A plain connection beside the store.
class Beside {
public:
    explicit Beside(const std::string& path) {
        sqlite3_open_v2(path.c_str(), &db_, SQLITE_OPEN_READWRITE, nullptr);
        // A connection that has not read anything does not know that there is a WAL.
        sqlite3_exec(db_, "select 1 from sqlite_master", nullptr, nullptr, nullptr);
    }
    ~Beside() { sqlite3_close(db_); }
    Beside(const Beside&) = delete;
    Beside& operator=(const Beside&) = delete;

    /// Moves the WAL into the file, as the store does when there is enough of it. That it fails is nobody's loss.
    void checkpoint() { sqlite3_wal_checkpoint_v2(db_, nullptr, SQLITE_CHECKPOINT_PASSIVE, nullptr, nullptr); }

    std::string integrity() {
        sqlite3_stmt* statement = nullptr;
        sqlite3_prepare_v2(db_, "pragma integrity_check", -1, &statement, nullptr);
        const bool found = sqlite3_step(statement) == SQLITE_ROW;
        std::string said =
            found ? reinterpret_cast<const char*>(sqlite3_column_text(statement, 0)) : sqlite3_errmsg(db_);
        sqlite3_finalize(statement);
        return said;
    }

private:
    sqlite3* db_ = nullptr;
};

/// One file on one unsafe disk, and everybody who was ever told something about it.
struct World {
    explicit World(std::uint64_t seed, Lie lie = Lie::none) : disk(seed, lie), witness(seed) {}

    [[nodiscard]] std::string path() const { return (folder.path() / "semel.db").string(); }
    [[nodiscard]] Result<std::unique_ptr<Store>> open() {
        auto store = sqlite::open({.path = path()});
        if (store) witness.owner_died();
        return store;
    }

    /// Opens, executes so many batches, closes; or as much of it as there is power for.
    void live(int batches, std::size_t commands_max) {
        const auto store = open();
        if (!store) {
            if (disk.has_power()) witness.complain("", store.failure().message);
            return;
        }
        const auto session = (*store)->session().value();
        Beside beside(path());
        for (int i = 0; i < batches; ++i) {
            if (!witness.execute(*session, witness.make_batch(commands_max))) break;
            if (witness.below(2) == 0) beside.checkpoint();
        }
    }

    /// The power is back: opens, compares, and closes or leaves the file to the next loss. False: it cannot be opened.
    bool examine() {
        disk.behave();
        if (!disk.has_power()) disk.restore_power();
        const auto store = open();
        if (!store) {
            witness.complain("", store.failure().message);
            return false;
        }
        check_integrity();
        witness.compare(**store);
        // As often as not the next life begins with a WAL to recover.
        if (witness.below(2) == 0) return true;
        disk.lose_power();
        return true;
    }

    void check_integrity() {
        const std::string said = Beside(path()).integrity();
        if (said != "ok") witness.complain("", "integrity_check: " + said);
    }

    const TempFolder folder;
    UnsafeDisk disk;
    Witness witness;
};

std::string text(const Complaints& complaints) {
    std::string all;
    for (std::size_t i = 0; i < complaints.size() && i < 10; ++i) all += complaints[i] + "\n";
    return all;
}

UnsafeDisk::Figures operator+(UnsafeDisk::Figures a, const UnsafeDisk::Figures& b) {
    return {a.calls + b.calls,
            a.losses + b.losses,
            a.losses_in_commit + b.losses_in_commit,
            a.losses_in_checkpoint + b.losses_in_checkpoint,
            a.writes_lost + b.writes_lost,
            a.writes_kept + b.writes_kept};
}

std::string text(const UnsafeDisk::Figures& figures) {
    return fmt::format(
        "{} losses of power in {} calls, {} in commits, {} in checkpoints; {} unsynced writes lost, {} kept",
        figures.losses, figures.calls, figures.losses_in_commit, figures.losses_in_checkpoint, figures.writes_lost,
        figures.writes_kept);
}

// ---- power loss ------------------------------------------------------------------------------------------------

TEST(PowerLoss, AtEveryCallOfTheFirstLifeOfAStore) {  // I2, I3, I5, I10
    UnsafeDisk::Figures all;
    std::uint64_t acknowledged = 0;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        bool lived_through = false;
        for (std::uint64_t calls = 0; !lived_through; ++calls) {
            SCOPED_TRACE(fmt::format("seed {}, power lost in call {}", seed, calls));
            World world(seed);
            world.disk.lose_power_after(calls);
            world.live(6, 6);  // creates and migrates the file, commits, checkpoints on the way and when closing
            lived_through = world.disk.has_power();
            acknowledged += world.witness.acknowledged();
            world.examine();
            ASSERT_TRUE(world.witness.complaints().empty()) << text(world.witness.complaints());
            all = all + world.disk.figures();
        }
    }
    std::cout << text(all) << ", " << acknowledged << " batches acknowledged\n";
    EXPECT_GE(all.losses, 200U);
    EXPECT_GE(all.losses_in_commit, 50U);
    EXPECT_GE(all.losses_in_checkpoint, 10U);
    EXPECT_GE(acknowledged, 200U);
}

TEST(PowerLoss, AtEveryCallOfARestartThatExpiresTheOwnerBefore) {  // I5, I10
    UnsafeDisk::Figures all;
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        World world(seed);
        bool lived_through = false;
        for (std::uint64_t calls = 0; !lived_through; ++calls) {
            SCOPED_TRACE(fmt::format("seed {}, power lost in call {}", seed, calls));
            {
                // Open operations, then a crash that leaves them to the next owner.
                const auto store = world.open().value();
                const auto session = store->session().value();
                Beside(world.path()).checkpoint();
                for (int i = 0; i < 2; ++i) ASSERT_TRUE(world.witness.execute(*session, world.witness.make_batch(40)));
                world.disk.lose_power();
            }
            world.disk.restore_power();
            world.disk.lose_power_after(calls);
            world.live(0, 1);
            lived_through = world.disk.has_power();
            ASSERT_TRUE(world.examine()) << text(world.witness.complaints());
            ASSERT_TRUE(world.witness.complaints().empty()) << text(world.witness.complaints());
            if (!world.disk.has_power()) world.disk.restore_power();
        }
        all = all + world.disk.figures();
    }
    std::cout << text(all) << '\n';
    EXPECT_GE(all.losses, 50U);
    EXPECT_GE(all.losses_in_commit, 10U);
}

/// Life after life on one disk, each ended by a loss of power anywhere, opening and closing included.
struct Lives {
    UnsafeDisk::Figures figures{};
    Complaints complaints{};
    std::uint64_t acknowledged = 0;
    Witness::Doubts doubts{};
};

Lives lives(std::uint64_t seed, int count, Lie lie = Lie::none) {
    World world(seed, lie);
    for (int life = 0; life < count && world.witness.complaints().empty(); ++life) {
        if (!world.disk.has_power()) world.disk.restore_power();
        if (world.witness.below(3) == 0)
            world.disk.lose_power_after_syncs(world.witness.below(20));
        else
            world.disk.lose_power_after(world.witness.below(world.witness.below(3) == 0 ? 40 : 400));
        world.live(25, world.witness.below(4) == 0 ? 60 : 8);
        if (!world.examine()) break;
    }
    return {world.disk.figures(), world.witness.complaints(), world.witness.acknowledged(), world.witness.doubts()};
}

TEST(PowerLoss, AnywhereInManyLives) {  // I2, I3, I5, I10
    UnsafeDisk::Figures all;
    std::uint64_t acknowledged = 0;
    Witness::Doubts doubts;
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        const Lives lived = lives(seed, 25);
        ASSERT_TRUE(lived.complaints.empty()) << "seed " << seed << ":\n" << text(lived.complaints);
        all = all + lived.figures;
        acknowledged += lived.acknowledged;
        doubts.happened += lived.doubts.happened;
        doubts.did_not += lived.doubts.did_not;
    }
    std::cout << text(all) << ", " << acknowledged << " batches acknowledged, of those in doubt " << doubts.happened
              << " there and " << doubts.did_not << " not\n";
    EXPECT_GE(doubts.happened, 4);
    EXPECT_GE(doubts.did_not, 100);
    EXPECT_GE(all.losses, 250U);
    EXPECT_GE(all.losses_in_commit, 100U);
    EXPECT_GE(all.losses_in_checkpoint, 20U);
    EXPECT_GE(all.writes_lost, 500U);
    EXPECT_GE(all.writes_kept, 500U);
    EXPECT_GE(acknowledged, 1000U);
}

TEST(PowerLoss, IsNoticedHereOnADiskThatLies) {
    // Otherwise the tests above prove nothing.
    for (const Lie lie : {Lie::every_sync, Lie::wal_sync, Lie::folder_sync}) {
        int gone = 0;
        for (std::uint64_t seed = 1; seed <= 6; ++seed) {
            const Lives lived = lives(seed, 25, lie);
            for (const std::string& complaint : lived.complaints) gone += complaint.ends_with("is gone") ? 1 : 0;
        }
        EXPECT_GE(gone, 1) << "lie " << static_cast<int>(lie);
    }
}

/// Callers of a committer, in many threads, and what each was told.
class Crowd {
public:
    explicit Crowd(std::size_t body_bytes) : body_bytes_(body_bytes) {}

    /// Everybody claims and settles until the power goes.
    void work(World& world, Store& store, int life) {
        const Token earlier = token_max_;
        const auto committer = Committer::start(store, {.timeout = 50ms}).value();
        std::vector<std::thread> threads;
        for (int t = 0; t < 6; ++t) {
            threads.emplace_back([&, t] {
                for (int i = 0; world.disk.has_power(); ++i) {
                    const std::string key = fmt::format("{}-{}-{}", life, t, i);
                    const Claim command = claim(key);
                    const auto answer = committer->claim(command);
                    if (!answer) continue;
                    const Claimed mine = std::get<Claimed>(*answer);
                    claimed(key, mine.token);
                    EXPECT_GT(mine.token, earlier) << key;  // I3
                    if (i % 5 == 4) continue;
                    if (committer->settle(holder(command, mine), outcome(key))) settled(key);
                }
            });
        }
        for (std::thread& thread : threads) thread.join();
    }

    void expect_everything_in(Store& store) const {
        for (const auto& [key, told] : told_) {
            const auto record = store.find(operation(key).id()).value();
            ASSERT_TRUE(record) << key << " was acknowledged and is gone";
            EXPECT_EQ(record->token, told.token) << key;
            // A settle without an answer may have happened.
            const bool is_settled = record->state == State::settled && record->outcome == outcome(key);
            EXPECT_TRUE(is_settled || (!told.settled && record->state == State::unknown))
                << key << " is " << name(record->state);
        }
    }

    [[nodiscard]] std::size_t claims() const { return told_.size(); }
    [[nodiscard]] std::size_t settles() const {
        return static_cast<std::size_t>(std::ranges::count_if(told_, [](const auto& t) { return t.second.settled; }));
    }

private:
    [[nodiscard]] Outcome outcome(const std::string& key) const {
        return {200, key + std::string(body_bytes_, key.back()), true};
    }
    void claimed(const std::string& key, Token token) {
        const std::lock_guard lock(mutex_);
        told_[key].token = token;
        token_max_ = std::max(token_max_, token);
    }
    void settled(const std::string& key) {
        const std::lock_guard lock(mutex_);
        told_[key].settled = true;
    }

    struct CallerTold {
        Token token{};
        bool settled = false;
    };
    const std::size_t body_bytes_;
    std::mutex mutex_;  // guards the following while the crowd works
    std::map<std::string, CallerTold> told_;
    Token token_max_;
};

struct Crowded {
    UnsafeDisk::Figures figures{};
    std::size_t claims = 0;
    std::size_t settles = 0;
};

/// Lives of a crowd, each ended by a loss of power within so many calls.
Crowded crowded_lives(std::uint64_t seed, int count, std::uint64_t calls_max, std::size_t body_bytes) {
    World world(seed);
    Crowd crowd(body_bytes);
    for (int life = 0;; ++life) {
        SCOPED_TRACE(fmt::format("seed {}, life {}", seed, life));
        auto store = world.open().value();
        crowd.expect_everything_in(*store);
        world.check_integrity();
        EXPECT_TRUE(world.witness.complaints().empty()) << text(world.witness.complaints());
        if (life == count || testing::Test::HasFailure()) break;
        world.disk.lose_power_after(world.witness.below(calls_max));
        crowd.work(world, *store, life);
        store.reset();
        world.disk.restore_power();
    }
    return {world.disk.figures(), crowd.claims(), crowd.settles()};
}

TEST(PowerLoss, UnderACommitterWithManyCallers) {  // I2, I3, I5, I10
    const Crowded crowded = crowded_lives(1, 25, 600, 0);
    std::cout << text(crowded.figures) << "; " << crowded.claims << " claimed, " << crowded.settles << " settled\n";
    EXPECT_GE(crowded.claims, 200U);
    EXPECT_GE(crowded.settles, 100U);
    EXPECT_LT(crowded.settles, crowded.claims);
}

TEST(PowerLoss, BesideTheCheckpointsOfTheStore) {  // I2, I3, I5, I10
    // Enough of it that the store moves its log into the file meanwhile, on a thread of its own.
    UnsafeDisk::Figures all;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) all = all + crowded_lives(seed, 6, 12'000, 60'000).figures;
    std::cout << text(all) << '\n';
    EXPECT_GE(all.losses_in_checkpoint, 1U);
}

// ---- a failing disk --------------------------------------------------------------------------------------------

enum class End { closed, killed, without_power };

End end_of(std::uint64_t number) { return static_cast<End>(number % 3); }

/// A store with something in it, open.
struct Running {
    explicit Running(std::uint64_t seed) : world(seed), store(world.open().value()), session(store->session().value()) {
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(world.witness.execute(*session, world.witness.make_batch(8)));
    }
    /// Ends this life in one of three ways, looks at what is there in the next, and at what a loss of power leaves of that.
    void end(End how) {
        if (how == End::killed) world.disk.kill_process();
        if (how == End::without_power) world.disk.lose_power();
        store.reset();
        if (how == End::killed) world.disk.restart_process();
        if (!world.examine()) return;
        if (!world.disk.has_power()) world.disk.restore_power();
        world.disk.lose_power_after(world.witness.below(200));
        world.live(5, 8);
        if (world.disk.has_power()) world.disk.lose_power();
        world.examine();
    }

    World world;
    std::unique_ptr<Store> store;
    std::unique_ptr<Session> session;
};

/// A fault in COMMIT that leaves in doubt what is on the disk.
void expect_indeterminate_and_then_unavailable(Running& running, const UnsafeDisk::Fault& fault) {
    Witness& witness = running.world.witness;
    running.world.disk.fail_once(fault);
    ASSERT_FALSE(witness.execute(*running.session, witness.make_batch(8)));
    ASSERT_TRUE(running.world.disk.failed());
    EXPECT_EQ(witness.code(), Code::indeterminate);
    // Whoever asks again, by whatever session, is told that nothing was done: and nothing is.
    for (int i = 0; i < 3; ++i) {
        const auto session = running.store->session().value();
        const Group group = lone(claim(fmt::format("after the fault {}", i)));
        const auto executed = session->execute(std::span(&group, 1));
        ASSERT_FALSE(executed);
        EXPECT_EQ(executed.failure().code, Code::unavailable) << executed.failure().message;
    }
    EXPECT_EQ(running.store->sweep(10).failure().code, Code::unavailable);
}

TEST(FailingDisk, AFailedSyncInCommitIsIndeterminateAndNothingGoesOnUntilTheStoreIsOpenedAnew) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        Running running(seed);
        expect_indeterminate_and_then_unavailable(
            running, {UnsafeDisk::File::wal, UnsafeDisk::Call::sync, SQLITE_IOERR_FSYNC, 0});
        running.end(end_of(seed));
        ASSERT_TRUE(running.world.witness.complaints().empty()) << text(running.world.witness.complaints());
    }
}

TEST(FailingDisk, AFailedWriteInCommitIsIndeterminateAndNothingGoesOnUntilTheStoreIsOpenedAnew) {
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        Running running(seed);
        expect_indeterminate_and_then_unavailable(
            running, {UnsafeDisk::File::wal, UnsafeDisk::Call::write, SQLITE_IOERR_WRITE, 0});  // a commit is one write
        running.end(end_of(seed));
        ASSERT_TRUE(running.world.witness.complaints().empty()) << text(running.world.witness.complaints());
    }
}

TEST(FailingDisk, WhatAFailedSyncLeftInTheCacheIsNothingToBuildOn) {  // I10
    // The next owner finds the commit in the kernel's cache, where it passes for synced, and the disk may not have it. What
    // is acknowledged on top of it must not depend on it.
    Witness::Doubts doubts;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        Running running(seed);
        World& world = running.world;
        world.disk.fail_once({UnsafeDisk::File::wal, UnsafeDisk::Call::sync, SQLITE_IOERR_FSYNC, 0});
        ASSERT_FALSE(world.witness.execute(*running.session, world.witness.make_batch(8)));
        world.disk.kill_process();
        running.store.reset();
        world.disk.restart_process();
        {
            const auto store = world.open().value();
            world.witness.compare(*store);
            world.disk.lose_power();
        }
        world.examine();
        ASSERT_TRUE(world.witness.complaints().empty()) << text(world.witness.complaints());
        doubts.happened += world.witness.doubts().happened;
        doubts.did_not += world.witness.doubts().did_not;
    }
    EXPECT_GE(doubts.happened, 1);
}

TEST(FailingDisk, AFullDiskIsExhaustedAndNothingWasDone) {  // I9
    // At every write of a commit, the last one included: a disk that was full is no reason for doubt.
    std::uint64_t last = 0;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
        bool reached = true;
        for (std::uint64_t after = 0; reached; ++after) {
            last = std::max(last, after);
            SCOPED_TRACE(fmt::format("seed {}, full in write {}", seed, after));
            Running running(seed);
            Witness& witness = running.world.witness;
            running.world.disk.fail_once({UnsafeDisk::File::wal, UnsafeDisk::Call::write, SQLITE_FULL, after});
            // A small commit is one write, a large one several.
            const bool executed = witness.execute(*running.session, witness.make_batch(seed % 2 == 0 ? 500 : 8));
            reached = running.world.disk.failed();
            running.world.disk.behave();
            ASSERT_EQ(executed, !reached);
            EXPECT_TRUE(executed || witness.code() == Code::exhausted) << name(witness.code());
            // With room again everything goes on; without, nothing is lost.
            EXPECT_TRUE(seed % 3 == 0 || witness.execute(*running.session, witness.make_batch(8)));
            running.end(end_of(seed / 3 + after));
            ASSERT_TRUE(witness.complaints().empty()) << text(witness.complaints());
        }
    }
    EXPECT_GE(last, 2U) << "no commit was more than one write";
}

TEST(FailingDisk, ACheckpointThatFailsLosesNothing) {
    const UnsafeDisk::Fault faults[] = {
        {UnsafeDisk::File::database, UnsafeDisk::Call::write, SQLITE_FULL, 0},
        {UnsafeDisk::File::database, UnsafeDisk::Call::write, SQLITE_IOERR_WRITE, 3},
        {UnsafeDisk::File::database, UnsafeDisk::Call::sync, SQLITE_IOERR_FSYNC, 0},
    };
    for (std::uint64_t seed = 1; seed <= 36; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        Running running(seed);
        Witness& witness = running.world.witness;
        running.world.disk.fail_once(faults[seed / 3 % std::size(faults)]);
        {
            Beside beside(running.world.path());
            beside.checkpoint();
            ASSERT_TRUE(running.world.disk.failed()) << "no checkpoint";
            // Some go on to another checkpoint, which moves all of it again.
            for (std::uint64_t i = 0; i < seed % 5; ++i)
                EXPECT_TRUE(witness.execute(*running.session, witness.make_batch(8)));
            if (seed % 2 == 0) beside.checkpoint();
            for (std::uint64_t i = 0; i < seed % 7; ++i)
                EXPECT_TRUE(witness.execute(*running.session, witness.make_batch(8)));
        }
        running.end(end_of(seed));
        ASSERT_TRUE(running.world.witness.complaints().empty()) << text(running.world.witness.complaints());
    }
}

TEST(FailingDisk, AFailedSyncOfWhatTheStoreMovesEndsItAndLosesNothing) {  // I10
    for (std::uint64_t seed = 1; seed <= 9; ++seed) {
        SCOPED_TRACE(fmt::format("seed {}", seed));
        Running running(seed);
        Witness& witness = running.world.witness;
        running.world.disk.fail_once(
            {UnsafeDisk::File::database, UnsafeDisk::Call::sync, SQLITE_IOERR_FSYNC, seed * 7 % 20});
        bool goes_on = true;
        for (int i = 0; i < 400 && goes_on; ++i) goes_on = witness.execute(*running.session, witness.make_batch(200));
        ASSERT_TRUE(running.world.disk.failed()) << "nothing was moved";
        ASSERT_FALSE(goes_on) << "it builds on what may not be on the disk";
        running.end(end_of(seed));
        ASSERT_TRUE(witness.complaints().empty()) << text(witness.complaints());
    }
}

TEST(FailingDisk, AStoreThatCannotBeOpenedIsThereWhenTheDiskIsWellAgain) {
    for (const int code : {SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC}) {
        const auto call = code == SQLITE_IOERR_FSYNC ? UnsafeDisk::Call::sync : UnsafeDisk::Call::write;
        for (const auto file : {UnsafeDisk::File::database, UnsafeDisk::File::journal, UnsafeDisk::File::wal}) {
            bool reached = true;
            for (std::uint64_t after = 0; reached; ++after) {
                SCOPED_TRACE(fmt::format("code {}, file {}, call {}", code, static_cast<int>(file), after));
                World world(after);
                world.disk.fail_once({file, call, code, after});
                const bool opened = world.open().ok();
                reached = world.disk.failed();
                world.disk.behave();
                ASSERT_TRUE(opened || reached);
                world.live(3, 4);
                world.examine();
                ASSERT_TRUE(world.witness.complaints().empty()) << text(world.witness.complaints());
            }
        }
    }
}

}  // namespace
}  // namespace semel::test
