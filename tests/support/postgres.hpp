// A database of its own on the test server, and a plain connection to look into it.
#pragma once

#include <libpq-fe.h>

#include <memory>
#include <string>
#include <string_view>

#include "semel/postgres.hpp"

namespace semel::test {

/// The value of an environment variable that tests/servers/with-servers sets. Its absence is a failure, never a skip.
std::string server_variable(const char* name);

/// A fresh database with the schema `semel`; dropped at the end.
class TestDatabase {
public:
    TestDatabase();
    ~TestDatabase();
    TestDatabase(const TestDatabase&) = delete;
    TestDatabase& operator=(const TestDatabase&) = delete;

    [[nodiscard]] const std::string& uri() const { return uri_; }            ///< straight to PostgreSQL
    [[nodiscard]] const std::string& pooled_uri() const { return pooled_; }  ///< through PgBouncer in transaction mode
    [[nodiscard]] std::string host() const { return "127.0.0.1"; }
    [[nodiscard]] int port() const { return port_; }
    /// The direct URI with another port: to put a gate in between.
    [[nodiscard]] std::string uri_at_port(int port) const;

private:
    std::string name_;
    std::string uri_;
    std::string pooled_;
    int port_ = 0;
};

/// A blocking connection for the test itself. Fails the test on any error.
class TestConnection {
public:
    explicit TestConnection(const std::string& uri);
    void run(const std::string& sql);
    /// The first column of the first row, or "".
    std::string value(const std::string& sql);
    [[nodiscard]] PGconn* raw() const { return connection_.get(); }

private:
    struct Finish {
        void operator()(PGconn* connection) const { PQfinish(connection); }
    };
    std::unique_ptr<PGconn, Finish> connection_;
};

}  // namespace semel::test
