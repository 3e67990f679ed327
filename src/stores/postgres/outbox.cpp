// The outbox on PostgreSQL, as one relay sees it.
//
// A turn is one round trip and one transaction: for each shard a DELETE by primary key of what was confirmed, then a SELECT
// of what is left, each the same statement with the same plan however big the table is. What was staged late, by a
// transaction that took a low sequence and committed after higher ones, is simply there at the next turn.
//
// The bell is LISTEN on this connection, which needs it for itself: behind a pooler nobody hears.
#include <fmt/format.h>
#include <poll.h>

#include <map>

#include "ledger/staged_event.hpp"
#include "semel/postgres.hpp"
#include "stores/postgres/schema.hpp"

namespace semel::postgres {
namespace {

using std::chrono::steady_clock;

// Each row by the whole primary key (offset 0). `sequence = any($3)` is no better than that, and a server that takes the table
// for nearly empty, as it mostly is, goes through all of the shard for it.
constexpr const char* delete_sql =
    "delete from semel.outbox where ctid = any(array(select o.ctid from unnest($3::bigint[]) as d (sequence) cross join "
    "lateral (select x.ctid from semel.outbox x where x.outbox = $1 and x.shard = $2 and x.sequence = d.sequence "
    "offset 0) o))";
constexpr const char* mend_sql =
    "delete from semel.outbox_stuck where outbox = $1 and shard = $2 and sequence = any($3::bigint[])";
// Not for an event that somebody else has published or dropped meanwhile: nobody would ever mend it.
constexpr const char* refuse_sql =
    "insert into semel.outbox_stuck as s (outbox, shard, sequence, ordering_key, tries, since, retry_at, error) "
    "select $1, $2, $3, $4, 1, semel._micros(), semel._micros() + $5, $6 from semel.outbox o "
    "where o.outbox = $1 and o.shard = $2 and o.sequence = $3 for key share on conflict (outbox, shard, sequence) "
    "do update set tries = s.tries + 1, retry_at = excluded.retry_at, error = excluded.error";
// One time for all rows: with a clock that goes on between them, a key's first event would still be stopped and the next one
// not. By index for each row, never joined and sorted (offset 0): a turn costs the same however much is stuck. `before`: the
// bytes of the rows in front, as far as they were looked at; a length is known without reading what it is of.
constexpr const char* read_sql =
    "select r.shard, r.sequence, r.staged_at, r.topic, r.ordering_key, r.id, r.source, r.type, r.subject, r.time, "
    "r.data_content_type, r.data_schema, r.extensions, r.data from (select o.*, sum(octet_length(o.data)) over "
    "(order by o.sequence rows between unbounded preceding and 1 preceding) as before from semel.outbox o "
    "where o.outbox = $1 and o.shard = $2 and not exists (select from semel.outbox_stuck s "
    "where s.outbox = $1 and s.shard = $2 and s.sequence = o.sequence and s.retry_at > semel._statement_micros() "
    "offset 0) and (o.ordering_key = '' or not exists (select from semel.outbox_stuck s where s.outbox = $1 "
    "and s.shard = $2 and s.ordering_key = o.ordering_key and s.retry_at > semel._statement_micros() offset 0)) "
    "order by o.sequence limit $3) r where r.before is null or r.before < $4 order by r.sequence";
constexpr const char* health_sql =
    "select semel._micros(), (select min(h.staged_at) from semel.outbox_lease l cross join lateral (select o.staged_at "
    "from "
    "semel.outbox o where o.outbox = l.outbox and o.shard = l.shard order by o.sequence limit 1) h where l.outbox = "
    "$1), "
    "(select count(*) from semel.outbox_stuck where outbox = $1), "
    "w.pid, (extract(epoch from clock_timestamp() - w.xact_start) * 1000000)::bigint "
    "from (values (1)) one left join lateral (select a.pid, a.xact_start from pg_locks l join pg_stat_activity a "
    "on a.pid = l.pid where l.locktype = 'advisory' and l.classid = 7306357 and l.objsubid = 2 and l.granted "
    "and l.database = (select oid from pg_database where datname = current_database()) "
    "order by a.xact_start limit 1) w on true";
constexpr const char* stuck_sql =
    "select s.shard, s.sequence, s.ordering_key, s.tries, s.since, s.retry_at, s.error, coalesce(o.id, ''), "
    "coalesce(o.topic, '') from semel.outbox_stuck s left join semel.outbox o "
    "on o.outbox = s.outbox and o.shard = s.shard and o.sequence = s.sequence "
    "where s.outbox = $1 order by s.since, s.sequence limit $2";

constexpr const char* dropped_sql =
    "select sequence, dropped_at, who, why, staged_at, tries, error, topic, ordering_key, id, source, type "
    "from semel.outbox_dropped where outbox = $1 order by dropped_at desc, sequence desc limit $2";

class PostgresOutbox final : public OutboxTable {
public:
    PostgresOutbox(Options options, std::string name, std::string relay)
        : options_(std::move(options)), name_(std::move(name)), relay_(std::move(relay)) {}

    Status connect() {
        wire_.reset();
        auto wire = Wire::connect(options_.uri, options_.connect_timeout);
        if (!wire) return wire.failure();
        if (auto fine = check_server(*wire, options_); !fine) return fine;
        wire_ = std::move(*wire);
        if (!wire_->direct()) return Done{};
        wire_->send("listen semel_outbox");
        // A plan that is kept is made for the table as it was: by index it is right when there is more, too.
        for (const char* by_index_only :
             {"set enable_seqscan = off", "set enable_bitmapscan = off", "set enable_sort = off"})
            wire_->send(by_index_only);
        auto listening = wire_->round_trip(options_.timeout);
        if (auto* error = std::get_if<WireError>(&listening)) return failure_of(*error, "listen", options_);
        return Done{};
    }

    Result<Held> hold(Duration lease) override {
        if (auto ready = begin(); !ready) return ready.failure();
        wire_->send_kept("select unnest(held), relays from semel._outbox_hold($1, $2, $3)",
                         Params().text(name_).text(relay_).int8(lease.count()));
        wire_->send_kept("select count(*) from semel.outbox_relay where outbox = $1 and alive_until > semel._micros()",
                         Params().text(name_));
        const auto rows = answer("hold the outbox");
        if (!rows) return rows.failure();
        Held held;
        const Rows& mine = (*rows)[0];
        for (int at = 0; at < mine.count(); ++at) held.shards.push_back(static_cast<std::int16_t>(mine.integer(at, 0)));
        held.relays = static_cast<std::size_t>((*rows)[1].integer(0, 0));
        constexpr std::size_t shards = 16;
        held.share = held.relays == 0 ? shards : (shards + held.relays - 1) / held.relays;
        return held;
    }

    void leave() override {
        if (!begin()) return;
        wire_->send("update semel.outbox_lease set relay = '', until = 0 where outbox = $1 and relay = $2",
                    Params().text(name_).text(relay_));
        wire_->send("delete from semel.outbox_relay where outbox = $1 and relay = $2",
                    Params().text(name_).text(relay_));
        // Whoever sleeps shall look at once.
        wire_->send("select pg_notify('semel_outbox', '')");
        static_cast<void>(answer("leave the outbox"));
    }

    void begin_turn(const Turn& turn) override {
        before_ = 0;
        not_begun_.reset();
        if (turn.done.empty() && turn.refused.empty() && turn.read.empty()) {
            not_begun_.emplace(std::vector<OutboxRow>{});
            return;
        }
        if (auto ready = begin(); !ready) {
            not_begun_.emplace(ready.failure());
            return;
        }
        send(turn);
        wire_->begin_trip(options_.timeout);
    }

    std::optional<Result<std::vector<OutboxRow>>> turned(Duration wait) override {
        if (not_begun_) return std::exchange(not_begun_, std::nullopt);
        auto answer = wire_->answered(wait);
        if (!answer) return std::nullopt;
        const auto rows = results(std::move(*answer), "relay the outbox");
        if (!rows) return rows.failure();
        std::vector<OutboxRow> read;
        for (std::size_t i = before_; i < rows->size(); ++i)
            for (int at = 0; at < (*rows)[i].count(); ++at) read.push_back(row_at((*rows)[i], at));
        return read;
    }

    Status ring(bool wanted) override {
        if (auto ready = begin(); !ready) return ready;
        wire_->send_kept(wanted
                             ? "update semel.outbox_lease set bell = true where outbox = $1 and relay = $2 and not bell"
                             : "update semel.outbox_lease set bell = false where outbox = $1 and relay = $2 and bell",
                         Params().text(name_).text(relay_));
        const auto rows = answer("set the bell");
        if (!rows) return rows.failure();
        return Done{};
    }

    bool wait(Duration time) override {
        const auto deadline = steady_clock::now() + time;
        while (true) {
            if (rang()) return true;
            const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
            if (left.count() <= 0) return false;
            pollfd line{wire_ && wire_->usable() ? PQsocket(wire_->raw()) : -1, POLLIN, 0};
            if (::poll(&line, 1, static_cast<int>(left.count())) <= 0) continue;
            if (PQconsumeInput(wire_->raw()) != 1) {
                wire_.reset();
                return false;
            }
        }
    }

    [[nodiscard]] bool hears() const override { return wire_ && wire_->direct(); }

    Result<Health> health() override {
        if (auto ready = begin(); !ready) return ready.failure();
        wire_->send_kept(health_sql, Params().text(name_));
        const auto rows = answer("look at the outbox");
        if (!rows) return rows.failure();
        const Rows& row = rows->front();
        Health health;
        health.now = time_from_micros(row.integer(0, 0));
        if (!row.is_null(0, 1)) health.oldest = time_from_micros(row.integer(0, 1));
        health.stuck = static_cast<std::uint64_t>(row.integer(0, 2));
        if (!row.is_null(0, 4)) {
            health.held_up_for = Duration{row.integer(0, 4)};
            health.held_up_by = fmt::format("the transaction of process {}", row.integer(0, 3));
        }
        return health;
    }

    Result<std::vector<OutboxStuck>> stuck(std::size_t limit) override {
        if (auto ready = begin(); !ready) return ready.failure();
        wire_->send(stuck_sql, Params().text(name_).int8(static_cast<std::int64_t>(limit)));
        const auto rows = answer("list what is stuck");
        if (!rows) return rows.failure();
        std::vector<OutboxStuck> all;
        const Rows& found = rows->front();
        for (int at = 0; at < found.count(); ++at)
            all.push_back({.place = {static_cast<std::int16_t>(found.integer(at, 0)), found.integer(at, 1)},
                           .ordering_key = std::string(found.bytes(at, 2)),
                           .error = std::string(found.bytes(at, 6)),
                           .tries = static_cast<std::uint64_t>(found.integer(at, 3)),
                           .since = time_from_micros(found.integer(at, 4)),
                           .retry_at = time_from_micros(found.integer(at, 5)),
                           .id = std::string(found.bytes(at, 7)),
                           .topic = std::string(found.bytes(at, 8))});
        return all;
    }

    Result<bool> retry(std::int64_t sequence) override {
        if (auto ready = begin(); !ready) return ready.failure();
        wire_->send("update semel.outbox_stuck set retry_at = 0 where outbox = $1 and sequence = $2",
                    Params().text(name_).int8(sequence));
        wire_->send("select pg_notify('semel_outbox', '')");
        const auto rows = answer("try what is stuck again");
        if (!rows) return rows.failure();
        return rows->front().affected() > 0;
    }

    Result<bool> drop(const OutboxDrop& drop) override {
        if (auto fine = check(drop); !fine) return fine.failure();
        if (auto ready = begin(); !ready) return ready.failure();
        wire_->send("select semel._outbox_drop($1, $2, $3, $4)::int::bigint",
                    Params().text(name_).int8(drop.sequence).text(drop.who).text(drop.why));
        const auto rows = answer("drop what is stuck");
        if (!rows) return rows.failure();
        return rows->front().integer(0, 0) != 0;
    }

    Result<std::vector<OutboxDropped>> dropped(std::size_t limit) override {
        if (auto ready = begin(); !ready) return ready.failure();
        wire_->send(dropped_sql, Params().text(name_).int8(static_cast<std::int64_t>(limit)));
        const auto rows = answer("list what was dropped");
        if (!rows) return rows.failure();
        std::vector<OutboxDropped> all;
        const Rows& found = rows->front();
        for (int at = 0; at < found.count(); ++at) {
            const auto text = [&](int column) { return std::string(found.bytes(at, column)); };
            all.push_back({.decision = {.sequence = found.integer(at, 0), .who = text(2), .why = text(3)},
                           .dropped_at = time_from_micros(found.integer(at, 1)),
                           .staged_at = time_from_micros(found.integer(at, 4)),
                           .tries = static_cast<std::uint64_t>(found.integer(at, 5)),
                           .error = text(6),
                           .topic = text(7),
                           .ordering_key = text(8),
                           .id = text(9),
                           .source = text(10),
                           .type = text(11)});
        }
        return all;
    }

    [[nodiscard]] std::string text() const override { return without_password(options_.uri); }

private:
    Status begin() {
        if (wire_ && wire_->usable()) return Done{};
        return connect();
    }

    void send(const Turn& turn) {
        std::map<std::int16_t, Params::Array> done;
        for (const OutboxPlace& place : turn.done)
            done.try_emplace(place.shard, Params::int8s()).first->second.int8(place.sequence);
        for (auto& [shard, sequences] : done) {
            const Params params = Params().text(name_).int8(shard).array(sequences);
            wire_->send_kept(delete_sql, params);
            wire_->send_kept(mend_sql, params);
            before_ += 2;
        }
        for (const OutboxRefusal& each : turn.refused) {
            wire_->send_kept(refuse_sql, Params()
                                             .text(name_)
                                             .int8(each.place.shard)
                                             .int8(each.place.sequence)
                                             .text(each.ordering_key)
                                             .int8(each.again_after.count())
                                             .text(each.error));
            ++before_;
        }
        for (const OutboxReading& each : turn.read)
            wire_->send_kept(read_sql, Params()
                                           .text(name_)
                                           .int8(each.shard)
                                           .int8(static_cast<std::int64_t>(each.limit))
                                           .int8(static_cast<std::int64_t>(each.bytes)));
    }

    Result<std::vector<Rows>> answer(std::string_view tried) {
        return results(wire_->round_trip(options_.timeout), tried);
    }

    Result<std::vector<Rows>> results(Wire::Answer answered, std::string_view tried) {
        if (auto* error = std::get_if<WireError>(&answered)) {
            Failure failure = failure_of(*error, tried, options_);
            if (!wire_->usable()) wire_.reset();
            return failure;
        }
        return std::get<0>(std::move(answered));
    }

    bool rang() {
        if (!wire_ || !wire_->usable()) return false;
        bool any = false;
        while (PGnotify* const notice = PQnotifies(wire_->raw())) {
            PQfreemem(notice);
            any = true;
        }
        return any;
    }

    [[nodiscard]] OutboxRow row_at(const Rows& rows, int at) const {
        const auto text = [&](int column) { return std::string(rows.bytes(at, column)); };
        OutboxRow row;
        row.place = {static_cast<std::int16_t>(rows.integer(at, 0)), rows.integer(at, 1)};
        row.staged_at = time_from_micros(rows.integer(at, 2));
        row.staged.topic = text(3);
        row.staged.ordering_key = text(4);
        row.staged.outbox = name_;
        row.staged.event = {.id = text(5),
                            .source = text(6),
                            .type = text(7),
                            .subject = text(8),
                            .time = text(9),
                            .data_content_type = text(10),
                            .data_schema = text(11),
                            .extensions = extensions_of(rows.bytes(at, 12)),
                            .data = text(13)};
        return row;
    }

    Options options_;
    std::string name_;
    std::string relay_;
    std::optional<Wire> wire_;
    std::size_t before_ = 0;                                   // statements of the turn that come before its reads
    std::optional<Result<std::vector<OutboxRow>>> not_begun_;  // the answer to a turn that was not sent
};

}  // namespace

Result<std::unique_ptr<OutboxTable>> open_outbox(Options options, std::string name, std::string relay) {
    auto table = std::make_unique<PostgresOutbox>(std::move(options), std::move(name), std::move(relay));
    if (auto connected = table->connect(); !connected) return connected.failure();
    return std::unique_ptr<OutboxTable>(std::move(table));
}

}  // namespace semel::postgres
