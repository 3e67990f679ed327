// A thin layer over libpq: one connection, pipelined round trips with a deadline, binary parameters and results.
//
// Through a pooler such as PgBouncer in transaction mode no session state may be kept on the server. Only a connection
// that goes to one server process for sure (see direct()) has named statements and settings of its own.
#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "semel/result.hpp"
#include "semel/time.hpp"

namespace semel::postgres {

/// The parameters of one statement, in binary.
class Params {
public:
    Params& int8(std::int64_t value);
    Params& text(std::string_view value);
    Params& bytea(std::string_view value);
    Params& uuid(std::string_view bytes16);
    Params& null();  ///< of the type that the statement asks for

    /// Arrays: begin, then one call per element.
    class Array {
    public:
        Array& int8(const std::optional<std::int64_t>& value);
        Array& int2(std::int16_t value);
        Array& bytes(std::string_view value);  ///< uuid, bytea or text, by the array's element type
        Array& bytes(const std::optional<std::string>& value);

    private:
        friend class Params;
        Array(std::uint32_t element, std::uint32_t array) : element_(element), array_(array) {}
        void length(std::int32_t value);
        std::uint32_t element_;
        std::uint32_t array_;
        std::uint32_t count_ = 0;
        bool has_null_ = false;
        std::string elements_;
    };
    static Array int8s() { return {20, 1016}; }
    static Array int2s() { return {21, 1005}; }
    static Array texts() { return {25, 1009}; }
    static Array byteas() { return {17, 1001}; }
    static Array uuids() { return {2950, 2951}; }
    Params& array(Array array);

private:
    friend class Wire;
    void add(std::uint32_t type, std::optional<std::string> bytes);
    std::vector<std::uint32_t> types_;
    std::vector<std::optional<std::string>> values_;
};

/// The rows of one statement, in binary.
class Rows {
public:
    explicit Rows(PGresult* result) : result_(result) {}
    [[nodiscard]] int count() const { return PQntuples(result_.get()); }
    [[nodiscard]] bool is_null(int row, int column) const { return PQgetisnull(result_.get(), row, column) != 0; }
    [[nodiscard]] std::string_view bytes(int row, int column) const {
        return {PQgetvalue(result_.get(), row, column),
                static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
    }
    [[nodiscard]] std::optional<std::string> optional_bytes(int row, int column) const {
        if (is_null(row, column)) return std::nullopt;
        return std::string(bytes(row, column));
    }
    [[nodiscard]] std::int64_t integer(int row, int column) const;  ///< int2, int4 or int8
    [[nodiscard]] std::string_view command() const { return PQcmdStatus(result_.get()); }
    [[nodiscard]] std::int64_t affected() const;
    [[nodiscard]] ExecStatusType status() const { return PQresultStatus(result_.get()); }
    [[nodiscard]] const PGresult* raw() const { return result_.get(); }

private:
    struct Clear {
        void operator()(PGresult* result) const { PQclear(result); }
    };
    std::unique_ptr<PGresult, Clear> result_;
};

/// Why a round trip failed.
struct WireError {
    std::string sqlstate;  ///< empty: the connection was lost or the deadline passed
    std::string message;
    [[nodiscard]] bool lost() const { return sqlstate.empty(); }
};

/// What a server's error lets the caller conclude, given that the transaction was rolled back.
Code code_of(const std::string& sqlstate);

class Wire {
public:
    static Result<Wire> connect(const std::string& uri, Duration connect_timeout);

    /// Queues a statement. It is sent with the next round trip.
    void send(const char* sql, const Params& params = {});
    /// The same for a statement that is sent often, at the same address: on a direct connection the server parses and
    /// plans it once.
    void send_kept(const char* sql, const Params& params = {});
    /// Whether this connection is one server process for as long as it lasts. A pooler makes up the process number that
    /// it tells its clients, since it has no process to tell of yet.
    [[nodiscard]] bool direct() const { return direct_; }
    /// The rows of each statement, or the first error: the statements after it were not executed.
    using Answer = std::variant<std::vector<Rows>, WireError>;
    /// Sends what was queued and waits for all of it. After a lost connection the wire is unusable.
    Answer round_trip(Duration timeout);
    /// The same in two parts: between them the server works, and nothing else is sent. `answered` is empty if not all of the
    /// answer has come within `wait`; it has to be called now and then, since a server whose answer nobody takes stops.
    void begin_trip(Duration timeout);
    std::optional<Answer> answered(Duration wait);
    /// Ends a transaction that failed. False: the connection is of no more use.
    bool roll_back(Duration timeout);

    /// For code that uses the connection in its ordinary, blocking way: between round trips, until `pipelined`.
    /// False: the connection is of no more use.
    bool plain();
    bool pipelined();

    [[nodiscard]] bool usable() const { return connection_ != nullptr && usable_; }
    [[nodiscard]] PGconn* raw() const { return connection_.get(); }

private:
    struct Queued {
        const char* prepares = nullptr;  ///< the statement that becomes a kept one if this succeeds
    };
    struct Kept {
        const char* sql;
        std::string name;
    };
    /// What has been sent, and what of its answer has come.
    struct Trip {
        std::vector<Queued> queued;
        std::size_t at = 0;  ///< the statement whose result is next
        std::vector<Rows> rows;
        std::optional<WireError> error;
        std::chrono::steady_clock::time_point deadline;
        bool sent = true;
        bool flushed = false;
    };
    Status find_out_direct(Duration timeout);
    /// Takes the results that are there; the answer with the last one.
    std::optional<Answer> take_results();
    WireError lost(std::string_view what);
    struct Finish {
        void operator()(PGconn* connection) const { PQfinish(connection); }
    };
    std::unique_ptr<PGconn, Finish> connection_;
    std::vector<Queued> queued_;
    std::vector<Kept> kept_;
    std::optional<Trip> trip_;
    bool direct_ = false;
    bool send_failed_ = false;
    bool usable_ = false;
};

/// The connection string without its password, for messages.
std::string without_password(const std::string& uri);

}  // namespace semel::postgres
