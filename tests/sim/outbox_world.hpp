// The outbox of a simulation: a database with transactions that stage, some of which commit late or never; brokers that lose
// connections and receipts or refuse an event; and the judge of what arrives.
//
// The tables do as sql/postgres/004_outbox.sql and stores/postgres/outbox.cpp say. Who reads them, publishes and removes is the
// product's Pump.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "outbox/publisher.hpp"
#include "semel/outbox.hpp"

namespace semel::sim {

/// Hears of what is committed, of what arrives at the broker and of what is removed.
class OutboxJudge {
public:
    explicit OutboxJudge(Stage& stage) : stage_(stage) {}
    void committed(const OutboxRow& row);
    void arrived(const OutboxRow& row);
    void removed(const OutboxRow& row);

    /// From now on each event should arrive once.
    void expect_no_copies() { no_copies_ = true; }
    [[nodiscard]] bool has_arrived(const std::string& id) const { return arrived_.contains(id); }
    [[nodiscard]] std::size_t missing() const { return committed_.size() - arrived_.size(); }
    /// Those of one key left out.
    [[nodiscard]] std::size_t missing_but(const std::string& key) const;

private:
    Stage& stage_;
    std::map<std::string, std::string> committed_;            ///< key by id
    std::map<std::string, std::deque<std::string>> to_come_;  ///< ids by key, in the order of commits
    std::set<std::string> arrived_;
    std::set<std::string> committed_late_;  ///< since no copies are expected
    bool no_copies_ = false;
};

// ---- the database ----------------------------------------------------------------------------------------------

class OutboxDatabase {
public:
    OutboxDatabase(Stage& stage, OutboxJudge& judge) : stage_(stage), judge_(judge) {}

    /// A transaction that stages so many events for a key ("": none), waiting for whoever stages for that key.
    void stage_events(const std::string& key, std::size_t count);
    [[nodiscard]] bool empty() const { return rows_.empty() && open_ == 0; }
    /// An id of each key's first event that is not published yet.
    [[nodiscard]] std::optional<std::string> first_of(const std::string& key) const;

    // ---- what the relays ask, each in one transaction
    OutboxTable::Held hold(const std::string& relay, Duration lease);
    void leave(const std::string& relay);
    struct Turn {
        std::vector<OutboxPlace> done;
        std::vector<OutboxRefusal> refused;
        std::vector<OutboxReading> read;
    };
    std::vector<OutboxRow> turn(const Turn& turn);
    OutboxTable::Health health() const;
    void set_bell(const std::string& relay, bool wanted);

    // ---- who listens
    void listen(const std::string& relay, std::function<void()> ring) { bells_[relay] = std::move(ring); }
    void hang_up(const std::string& relay) { bells_.erase(relay); }

    // ---- faults
    void outage(Duration how_long) { down_until_ = stage_.now() + how_long; }
    [[nodiscard]] bool down() const { return stage_.now() < down_until_; }
    void clock_jumps(Duration by) { offset_ += by; }
    void heal() { down_until_ = Duration{0}; }
    [[nodiscard]] TimePoint clock() const { return time_from_micros(1'700'000'000'000'000) + stage_.now() + offset_; }

private:
    struct Staging {
        std::string key;
        std::size_t count;
    };
    struct Lease {
        std::string relay;
        TimePoint until{};
        bool bell = true;
    };
    struct Stuck {
        std::string key;
        TimePoint retry_at{};
    };
    void begin(const Staging& staging);
    void end(const std::string& key, std::vector<OutboxRow> rows, bool commits);
    [[nodiscard]] bool stopped(const OutboxRow& row) const;
    void ring(std::int16_t shard);

    Stage& stage_;
    OutboxJudge& judge_;
    std::map<OutboxPlace, OutboxRow> rows_;
    std::map<OutboxPlace, Stuck> stuck_;
    std::map<std::int16_t, Lease> leases_;
    std::map<std::string, TimePoint> relays_;  ///< alive until
    std::map<std::string, std::deque<Staging>> waiting_;
    std::set<std::string> locked_;
    std::map<std::string, std::function<void()>> bells_;
    std::size_t open_ = 0;
    std::int64_t sequence_ = 0;
    std::map<std::int16_t, std::int64_t> read_up_to_;  ///< of a poller that remembers where it was
    Duration down_until_{0};
    Duration offset_{0};
};

/// One relay's connection to it.
class SimTable final : public OutboxTable {
public:
    SimTable(Stage& stage, OutboxDatabase& database, Fibers& fibers, std::string relay, bool hears);
    ~SimTable() override { database_.hang_up(relay_); }
    SimTable(const SimTable&) = delete;
    SimTable& operator=(const SimTable&) = delete;

    Result<Held> hold(Duration lease) override;
    void leave() override;
    void begin_turn(const OutboxTable::Turn& turn) override;
    std::optional<Result<std::vector<OutboxRow>>> turned(Duration wait) override;
    Status ring(bool wanted) override;
    bool wait(Duration time) override;
    [[nodiscard]] bool hears() const override { return hears_; }
    Result<Health> health() override;
    Result<std::vector<OutboxStuck>> stuck(std::size_t) override { return std::vector<OutboxStuck>{}; }
    Result<bool> retry(std::int64_t) override { return false; }
    Result<bool> drop(const OutboxDrop&) override { return false; }
    Result<std::vector<OutboxDropped>> dropped(std::size_t) override { return std::vector<OutboxDropped>{}; }
    [[nodiscard]] std::string text() const override { return "simulated"; }

private:
    template <class Work>
    auto ask(Work work) -> Result<decltype(work())>;

    Stage& stage_;
    OutboxDatabase& database_;
    Fibers& fibers_;
    std::string relay_;
    bool hears_;
    bool rang_ = false;
    bool asking_ = false;
    std::optional<Awaited<bool>> bell_;
    std::optional<Awaited<Result<std::vector<OutboxRow>>>> turn_;  ///< that has no answer yet
};

// ---- the broker ------------------------------------------------------------------------------------------------

class SimBroker {
public:
    SimBroker(Stage& stage, OutboxJudge& judge);

    [[nodiscard]] bool keeps_order() const { return keeps_order_; }
    [[nodiscard]] bool deduplicates() const { return deduplicates_; }
    [[nodiscard]] bool down() const { return stage_.now() < down_until_; }
    [[nodiscard]] bool refuses(const std::string& id);
    /// Whether it had it before.
    bool take(const OutboxRow& row);
    void outage(Duration how_long) { down_until_ = stage_.now() + how_long; }
    void refuse(const std::string& id, Duration until) { refused_[id] = until; }
    void heal() {
        down_until_ = Duration{0};
        refused_.clear();
    }

private:
    Stage& stage_;
    OutboxJudge& judge_;
    bool keeps_order_;
    bool deduplicates_;
    Duration down_until_{0};
    std::map<std::string, Duration> refused_;  ///< until when
    std::set<std::string> looked_at_;
    std::set<std::string> has_;
};

/// One relay's connections to it, one after another.
class SimPublisher final : public outbox::Publisher {
public:
    SimPublisher(Stage& stage, SimBroker& broker, Fibers& fibers);
    ~SimPublisher() override { cut(); }
    SimPublisher(const SimPublisher&) = delete;
    SimPublisher& operator=(const SimPublisher&) = delete;

    Result<outbox::Handed> publish(const OutboxRow& row) override;
    Result<std::vector<outbox::Receipt>> receipts(Duration wait) override;
    [[nodiscard]] bool keeps_order() const override { return broker_.keeps_order(); }
    [[nodiscard]] std::size_t on_their_way_max() const override { return most_; }
    void start_over() override;
    [[nodiscard]] std::string text() const override { return "simulated"; }

private:
    /// One connection; what is on its way outlives the relay.
    struct Link {
        bool open = true;
        bool broken = false;                             ///< and the relay has not noticed
        std::map<std::string, Duration> last_arrival{};  ///< by topic, where order is kept
        std::map<std::string, bool> cut_off{};           ///< by topic: what follows does not arrive either
        std::vector<outbox::Receipt> receipts{};
        struct Waiting {
            Duration since{};
            std::string key{};
        };
        std::map<OutboxPlace, Waiting> waiting{};  ///< for a receipt
        std::optional<Awaited<bool>> came{};
        Fibers* fibers = nullptr;
    };
    using Connection = std::shared_ptr<Link>;
    // Whether or not the relay still lives.
    static void arrive(Stage& stage, SimBroker& broker, const Connection& link, const OutboxRow& row);
    static void tell(Stage& stage, const Connection& link, outbox::Receipt receipt);
    void cut();

    Stage& stage_;
    SimBroker& broker_;
    Fibers& fibers_;
    std::size_t most_;
    Connection link_;
};

}  // namespace semel::sim
