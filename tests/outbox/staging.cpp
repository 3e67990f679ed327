#include "staging.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "consumers/database.hpp"
#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"

namespace semel::test {

Stager::Stager(const std::string& url) {
    if (url.starts_with("sqlite:")) {
        if (sqlite3_open(url.substr(7).c_str(), &sqlite_) != SQLITE_OK) throw std::runtime_error("sqlite3_open");
        sqlite3_busy_timeout(sqlite_, 10'000);
        run("pragma synchronous=normal");
        return;
    }
    postgres_ = PQconnectdb(url.c_str());
    if (PQstatus(postgres_) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(postgres_));
}

Stager::~Stager() {
    if (postgres_ != nullptr) PQfinish(postgres_);
    if (sqlite_ != nullptr) sqlite3_close(sqlite_);
}

void Stager::run(const std::string& sql) {
    execute({postgres_, sqlite_}, is_sqlite() && sql == "begin" ? "begin immediate" : sql);
}

Result<std::int64_t> Stager::try_stage(const StagedEvent& staged) {
    return is_sqlite() ? sqlite::stage(sqlite_, staged) : postgres::stage(postgres_, staged);
}

void Stager::stage(const StagedEvent& staged) {
    if (auto done = try_stage(staged); !done) throw std::runtime_error(done.failure().message);
}

void Stager::commit(std::initializer_list<StagedEvent> events) {
    run("begin");
    for (const StagedEvent& each : events) stage(each);
    run("commit");
}

StagedEvent staged(const std::string& key, int number, const std::string& topic) {
    StagedEvent event{.topic = topic, .ordering_key = key};
    event.event = {.id = fmt::format("{}-{}", key.empty() ? "none" : key, number),
                   .source = "/shop",
                   .type = "paid",
                   .subject = key,
                   .time = "2026-01-02T03:04:05Z",
                   .data_content_type = "application/json",
                   .extensions = {{"correlationid", "c-" + std::to_string(number)}},
                   .data = fmt::format("{{\"number\":{}}}", number)};
    return event;
}

std::unique_ptr<OutboxTable> open_outbox_at(const std::string& url, const std::string& relay) {
    auto opened = url.starts_with("sqlite:") ? sqlite::open_outbox({.path = url.substr(7)}, "main", relay)
                                             : postgres::open_outbox({.uri = url}, "main", relay);
    if (!opened) throw std::runtime_error(opened.failure().message);
    return std::move(*opened);
}

}  // namespace semel::test
