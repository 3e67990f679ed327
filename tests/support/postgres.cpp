#include "support/postgres.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <stdexcept>

#include "base/bytes.hpp"
#include "semel/keys.hpp"

namespace semel::test {
namespace {

std::string with_database(const std::string& uri, const std::string& name) {
    return uri.substr(0, uri.rfind('/') + 1) + name;
}

}  // namespace

std::string server_variable(const char* name) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0')
        throw std::runtime_error(
            fmt::format("{} is not set: run the tests by `./dev test`, or this one inside "
                        "tests/servers/with-servers",
                        name));
    return value;
}

TestDatabase::TestDatabase() {
    const std::string server = server_variable("SEMEL_TEST_POSTGRES");
    name_ = "t_" + to_hex(mint_attempt().bytes);
    uri_ = with_database(server, name_);
    pooled_ = with_database(server_variable("SEMEL_TEST_PGBOUNCER"), name_);
    const auto colon = server.rfind(':');
    port_ = static_cast<int>(std::strtol(server.c_str() + colon + 1, nullptr, 10));
    TestConnection(server).run("create database " + name_);
    if (auto migrated = postgres::migrate({.uri = uri_}); !migrated)
        throw std::runtime_error(migrated.failure().message);
}

TestDatabase::~TestDatabase() {
    try {
        TestConnection(server_variable("SEMEL_TEST_POSTGRES"))
            .run("drop database if exists " + name_ + " with (force)");
    } catch (const std::exception&) {
        // The server may be gone by the test's own doing; its folder goes with it.
    }
}

std::string TestDatabase::uri_at_port(int port) const {
    const auto slash = uri_.rfind('/');
    const auto colon = uri_.rfind(':', slash);
    return uri_.substr(0, colon + 1) + std::to_string(port) + uri_.substr(slash);
}

TestConnection::TestConnection(const std::string& uri) : connection_(PQconnectdb(uri.c_str())) {
    if (PQstatus(connection_.get()) != CONNECTION_OK) throw std::runtime_error(PQerrorMessage(connection_.get()));
}

void TestConnection::run(const std::string& sql) { value(sql); }

std::string TestConnection::value(const std::string& sql) {
    PGresult* result = PQexec(connection_.get(), sql.c_str());
    const ExecStatusType status = PQresultStatus(result);
    const std::string got = status == PGRES_TUPLES_OK && PQntuples(result) > 0 ? PQgetvalue(result, 0, 0) : "";
    const std::string error = PQresultErrorMessage(result);
    PQclear(result);
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) throw std::runtime_error(sql + ": " + error);
    return got;
}

}  // namespace semel::test
