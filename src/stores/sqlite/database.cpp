#include "stores/sqlite/database.hpp"

#include <fmt/format.h>

namespace semel::sqlite {

Failure failure_of(sqlite3* connection, std::string_view tried) {
    const int extended = sqlite3_extended_errcode(connection);
    const char* file = sqlite3_db_filename(connection, "main");
    const auto message = [&](std::string_view advice) {
        return fmt::format("{} on sqlite:{}: {} ({}){}{}", tried, file ? file : "", sqlite3_errmsg(connection),
                           extended, advice.empty() ? "" : "; ", advice);
    };
    switch (extended & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED: return {Code::contended, message("another connection's transaction is in the way")};
        case SQLITE_FULL: return {Code::exhausted, message("make room on the disk")};
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB: return {Code::corrupt, message("restore the file from a backup")};
        case SQLITE_TOOBIG:
        case SQLITE_CONSTRAINT:
        case SQLITE_MISMATCH:
        case SQLITE_RANGE: return {Code::invalid, message("")};
        default: return {Code::unavailable, message("")};
    }
}

Result<Statement> Statement::prepare(sqlite3* connection, std::string_view sql) {
    Statement made;
    sqlite3_stmt* raw = nullptr;
    const int result = sqlite3_prepare_v3(connection, sql.data(), static_cast<int>(sql.size()),
                                          SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
    made.statement_.reset(raw);
    if (result != SQLITE_OK) return failure_of(connection, fmt::format("prepare `{}`", sql));
    return made;
}

Status run(sqlite3* connection, const char* sql) {
    if (sqlite3_exec(connection, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return failure_of(connection, sql);
    return Done{};
}

}  // namespace semel::sqlite
