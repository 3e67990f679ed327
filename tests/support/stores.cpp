#include "support/stores.hpp"

#include <sqlite3.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>

#include "base/bytes.hpp"
#include "ledger/row.hpp"
#include "semel/keys.hpp"
#include "semel/sqlite.hpp"
#include "stores/memory/memory_store.hpp"
#include "support/postgres.hpp"
#include "support/temp_folder.hpp"

namespace semel::test {
namespace {

template <class T>
T must(Result<T> result) {
    if (!result) throw std::runtime_error(result.failure().message);
    return std::move(*result);
}

/// A clock that only tests move.
class TestClock {
public:
    [[nodiscard]] std::function<TimePoint()> reader() {
        return [this] { return time_from_micros(now_.load()); };
    }
    void pass(Duration time) { now_ += time.count(); }

private:
    std::atomic<std::int64_t> now_{1'700'000'000'000'000};
};

class MemoryUnderTest final : public StoreUnderTest {
public:
    Store& store() override { return *store_; }
    void pass(Duration time) override { clock_.pass(time); }
    void clear() override { store_ = std::make_unique<MemoryStore>(clock_.reader()); }
    void damage(const OperationId&, std::string_view, std::size_t) override { throw std::logic_error("not stored"); }
    [[nodiscard]] bool can_damage() const override { return false; }
    void restart() override { store_->restart(); }
    [[nodiscard]] bool embedded() const override { return true; }

private:
    TestClock clock_;
    std::unique_ptr<MemoryStore> store_ = std::make_unique<MemoryStore>(clock_.reader());
};

class SqliteUnderTest final : public StoreUnderTest {
public:
    SqliteUnderTest() { open(); }
    Store& store() override { return *store_; }
    void pass(Duration time) override { clock_.pass(time); }
    void restart() override {
        store_.reset();
        open();
    }
    [[nodiscard]] bool embedded() const override { return true; }
    void clear() override {
        store_.reset();
        for (const char* suffix : {"", "-wal", "-shm"})
            std::filesystem::remove(folder_.path() / (std::string("semel.db") + suffix));
        open();
    }

    void damage(const OperationId& id, std::string_view column, std::size_t byte) override {
        sqlite3* db = nullptr;
        sqlite3_open((folder_.path() / "semel.db").c_str(), &db);
        const std::string where = " where lower(hex(op)) = '" + to_hex(id.bytes) + "'";
        std::string value;
        const std::string read = "select hex(" + std::string(column) + ") from semel_operation" + where;
        sqlite3_exec(
            db, read.c_str(),
            [](void* into, int, char** values, char**) {
                *static_cast<std::string*>(into) = from_hex(values[0]).value();
                return 0;
            },
            &value, nullptr);
        value.at(byte % value.size()) ^= 1;
        const bool text = column == "scope" || column == "key";
        const std::string literal = text ? "cast(x'" + to_hex(value) + "' as text)" : "x'" + to_hex(value) + "'";
        const std::string write = "update semel_operation set " + std::string(column) + " = " + literal + where;
        const int result = sqlite3_exec(db, write.c_str(), nullptr, nullptr, nullptr);
        sqlite3_close(db);
        if (result != SQLITE_OK) throw std::runtime_error("damage: " + write);
    }

private:
    void open() {
        store_ = must(sqlite::open(
            {.path = (folder_.path() / "semel.db").string(), .reserve_bytes = 0, .clock = clock_.reader()}));
    }
    TestClock clock_;
    TempFolder folder_;
    std::unique_ptr<Store> store_;
};

class PostgresUnderTest final : public StoreUnderTest {
public:
    explicit PostgresUnderTest(bool pooled) : pooled_(pooled) { restart(); }
    Store& store() override { return *store_; }
    void restart() override {
        store_.reset();
        store_ = must(postgres::open({.uri = pooled_ ? database_.pooled_uri() : database_.uri()}));
    }
    [[nodiscard]] bool embedded() const override { return false; }
    void clear() override {
        connection_.run("truncate semel.operation; delete from semel.meta where name = 'swept_at'");
    }

    /// The server's clock cannot be moved: every record becomes older instead.
    void pass(Duration time) override {
        std::string cursor;
        do {
            const Page page = must(store_->list({}, cursor, 1000));
            for (Record record : page.records) {
                for (TimePoint* at : {&record.lease_until, &record.created})
                    if (*at != TimePoint{}) *at -= time;
                for (auto* at : {&record.key_time, &record.unknown_since, &record.settled_at})
                    if (*at) **at -= time;
                for (HistoryEntry& event : record.history) event.at -= time;
                put(record);
            }
            cursor = page.next;
        } while (!cursor.empty());
        connection_.run("update semel.operation set due = due - " + std::to_string(time.count()) + " where state = 0");
        connection_.run("update semel.meta set value = value - " + std::to_string(time.count()) +
                        " where name = 'swept_at'");
    }

    void damage(const OperationId& id, std::string_view column, std::size_t byte) override {
        const std::string where = " where op = '" + to_hex(id.bytes) + "'";
        const std::string name(column);
        const bool text = column == "scope" || column == "key";
        const std::string bytes = text ? "convert_to(" + name + ", 'UTF8')" : name;
        const std::string at = std::to_string(byte) + " % octet_length(" + bytes + ")";
        const std::string flipped = "set_byte(" + bytes + ", " + at + ", get_byte(" + bytes + ", " + at + ") # 1)";
        connection_.run("update semel.operation set " + name + " = " +
                        (text ? "convert_from(" + flipped + ", 'UTF8')" : flipped) + where);
    }

private:
    void put(const Record& record) {
        const Row row = to_row(record);
        const auto hex = [](const std::string& bytes) { return "'\\x" + to_hex(bytes) + "'"; };
        connection_.run(
            "update semel.operation set due = " + (row.due ? std::to_string(*row.due) : std::string("null")) +
            ", record = " + hex(row.record) + " where op = '" + to_hex(row.id.bytes) + "'");
    }
    bool pooled_;
    TestDatabase database_;
    TestConnection connection_{database_.uri()};
    std::unique_ptr<Store> store_;
};

}  // namespace

const std::vector<StoreKind>& all_stores() {
    static const std::vector<StoreKind> kinds = {
        {"memory", [] { return std::make_unique<MemoryUnderTest>(); }},
        {"sqlite", [] { return std::make_unique<SqliteUnderTest>(); }},
        {"postgres", [] { return std::make_unique<PostgresUnderTest>(false); }},
        {"pgbouncer", [] { return std::make_unique<PostgresUnderTest>(true); }},
    };
    return kinds;
}

}  // namespace semel::test
