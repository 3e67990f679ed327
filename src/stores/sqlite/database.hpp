// A thin, typed layer over the SQLite C API: connections, prepared statements, errors.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "semel/result.hpp"

namespace semel::sqlite {

/// What went wrong on this connection, as a Failure whose code says what may be concluded (the statement was rolled back).
Failure failure_of(sqlite3* connection, std::string_view tried);

struct CloseConnection {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
};
using Connection = std::unique_ptr<sqlite3, CloseConnection>;

/// A prepared statement. Bound text and blobs must live until the next reset.
class Statement {
public:
    Statement() = default;
    static Result<Statement> prepare(sqlite3* connection, std::string_view sql);

    void bind(int at, std::int64_t value) { sqlite3_bind_int64(get(), at, value); }
    void bind_null(int at) { sqlite3_bind_null(get(), at); }
    void bind_text(int at, std::string_view text) {
        sqlite3_bind_text64(get(), at, text.data(), text.size(), SQLITE_STATIC, SQLITE_UTF8);
    }
    void bind_blob(int at, std::string_view bytes) {
        // A null pointer would bind NULL instead of an empty blob.
        sqlite3_bind_blob64(get(), at, bytes.empty() ? "" : bytes.data(), bytes.size(), SQLITE_STATIC);
    }
    template <class Value, class Bind>
    void bind_or_null(int at, const std::optional<Value>& value, Bind bind_value) {
        if (value)
            bind_value(at, *value);
        else
            bind_null(at);
    }

    [[nodiscard]] sqlite3_stmt* raw() const { return statement_.get(); }

    /// SQLITE_ROW, SQLITE_DONE or an error.
    int step() { return sqlite3_step(get()); }
    void reset() {
        sqlite3_reset(get());
        sqlite3_clear_bindings(get());
    }
    /// Steps a statement that returns no row, and resets it.
    int run() {
        const int result = step();
        sqlite3_reset(get());
        return result;
    }

    [[nodiscard]] std::int64_t integer(int column) const { return sqlite3_column_int64(get(), column); }
    [[nodiscard]] bool is_null(int column) const { return sqlite3_column_type(get(), column) == SQLITE_NULL; }
    [[nodiscard]] std::string bytes(int column) const {
        const void* data = sqlite3_column_blob(get(), column);
        const auto size = static_cast<std::size_t>(sqlite3_column_bytes(get(), column));
        return size == 0 ? std::string{} : std::string(static_cast<const char*>(data), size);
    }
    [[nodiscard]] std::optional<std::string> optional_bytes(int column) const {
        if (is_null(column)) return std::nullopt;
        return bytes(column);
    }

private:
    [[nodiscard]] sqlite3_stmt* get() const { return statement_.get(); }
    struct Finalize {
        void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
    };
    std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

Status run(sqlite3* connection, const char* sql);

}  // namespace semel::sqlite
