// Whoever stages: a connection of the user's own, on either database.
#pragma once

#include <libpq-fe.h>
#include <sqlite3.h>

#include <memory>
#include <string>

#include "semel/inbox.hpp"
#include "semel/outbox.hpp"

namespace semel::test {

/// One connection. Throws std::runtime_error for whatever fails.
class Stager {
public:
    /// `url` as Database::url() writes it.
    explicit Stager(const std::string& url);
    ~Stager();
    Stager(const Stager&) = delete;
    Stager& operator=(const Stager&) = delete;

    void run(const std::string& sql);
    Result<std::int64_t> try_stage(const StagedEvent& staged);
    void stage(const StagedEvent& staged);
    /// In a transaction of its own.
    void commit(std::initializer_list<StagedEvent> events);

    [[nodiscard]] bool is_sqlite() const { return sqlite_ != nullptr; }

private:
    PGconn* postgres_ = nullptr;
    sqlite3* sqlite_ = nullptr;
};

/// Event `number` of that key.
StagedEvent staged(const std::string& key, int number, const std::string& topic = "orders");

std::unique_ptr<OutboxTable> open_outbox_at(const std::string& url, const std::string& relay);

}  // namespace semel::test
