#include "cli/open_store.hpp"

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "base/quote.hpp"
#include "cli/exit_code.hpp"
#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"
#include "stores/postgres/schema.hpp"
#include "stores/sqlite/database.hpp"
#include "stores/sqlite/schema.hpp"

namespace semel::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view right_forms = "write sqlite:PATH, as in sqlite:semel.db, or postgres://USER@HOST/DATABASE";

// ---- addresses -------------------------------------------------------------------------------------------------

Result<StoreUrl> parse_sqlite(std::string_view text) {
    const std::string path(text.substr(std::string_view("sqlite:").size()));
    const auto refuse = [&](std::string_view why) {
        return refused(fmt::format("store {}: {}", in_quotes(text), why));
    };
    if (path.empty() || path == ":memory:") return refuse("a store needs a file name, as in sqlite:semel.db");
    if (path.starts_with("//")) return refuse("write the path after sqlite: as it is, as in sqlite:/var/lib/semel.db");
    if (path.ends_with('/')) return refuse("that is a folder; name a file, as in sqlite:semel.db");
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::ranges::any_of(path, control)) return refuse("the path has control characters");
    return StoreUrl{StoreUrl::Kind::sqlite, path};
}

Result<StoreUrl> parse_postgres(std::string_view text) {
    const std::string uri(text);
    char* message = nullptr;
    PQconninfoOption* const options = PQconninfoParse(uri.c_str(), &message);
    const bool fits = options != nullptr;
    PQconninfoFree(options);
    const std::unique_ptr<char, decltype(&PQfreemem)> owned(message, &PQfreemem);
    if (fits) return StoreUrl{StoreUrl::Kind::postgres, uri};
    // libpq quotes what it read, which may hold a password: it is shown only where there can be none.
    const bool may_hold_password = uri.find('@') != std::string::npos || uri.find("password") != std::string::npos;
    return refused(fmt::format("store {}: {}; {}", may_hold_password ? "\"postgres://…\"" : in_quotes(uri),
                               may_hold_password || message == nullptr ? "not a URI that libpq can read" : message,
                               right_forms));
}

// ---- SQLite files ----------------------------------------------------------------------------------------------

enum class File { absent, empty, database };

/// What is at the path, before SQLite or anybody else makes or changes a file there.
Result<File> look_at(const std::string& path) {
    const auto refuse = [&](std::string_view why) { return refused(fmt::format("store sqlite:{}: {}", path, why)); };
    std::error_code error;
    const fs::file_status status = fs::status(path, error);
    if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::none) {
        const fs::path folder = fs::path(path).parent_path();
        if (!folder.empty() && !fs::is_directory(folder, error))
            return refuse(fmt::format("there is no folder {}", in_quotes(folder.string())));
        return File::absent;
    }
    if (status.type() == fs::file_type::directory)
        return refuse("that is a folder; name a file, as in sqlite:semel.db");
    if (status.type() != fs::file_type::regular) return refuse("that is not a regular file");
    std::ifstream file(path, std::ios::binary);
    if (!file) return refuse("it cannot be read; check its permissions");
    constexpr std::string_view magic("SQLite format 3\0", 16);
    std::string head(magic.size(), '\0');
    file.read(head.data(), static_cast<std::streamsize>(head.size()));
    if (file.gcount() == 0) return File::empty;
    if (head != magic) return refuse("that is not a SQLite database, or one that is damaged");
    return File::database;
}

Result<int> sqlite_version(const std::string& path) {
    sqlite3* raw = nullptr;
    const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
    const sqlite::Connection connection(raw);
    if (opened != SQLITE_OK) return sqlite::failure_of(raw, "open");
    return sqlite::schema_of(raw);
}

Status check_is_there(const StoreUrl& url) {
    const auto file = look_at(url.place);
    if (!file) return file.failure();
    if (*file == File::absent)
        return refused(fmt::format("store {}: there is no such file; `semel migrate --store {}` makes one", url.text(),
                                   url.text()));
    return Done{};
}

Status check_sqlite_schema(const StoreUrl& url) {
    const auto version = sqlite_version(url.place);
    if (!version) return version.failure();
    return sqlite::check_schema(*version, url.place.c_str());
}

Result<std::unique_ptr<Store>> open_sqlite(const StoreUrl& url, Purpose purpose) {
    if (auto there = check_is_there(url); !there) return there.failure();
    if (purpose == Purpose::change) {
        // Before ownership is taken, which leaves a file beside the store.
        if (auto fits = check_sqlite_schema(url); !fits) return fits.failure();
    }
    sqlite::Options options;
    options.path = url.place;
    options.access = purpose == Purpose::read ? sqlite::Access::read : sqlite::Access::own;
    return sqlite::open(std::move(options));
}

Result<std::unique_ptr<Inbox>> open_sqlite_inbox(const StoreUrl& url) {
    if (auto there = check_is_there(url); !there) return there.failure();
    // An inbox makes the tables it does not find; people ask for that by `semel migrate`.
    if (auto fits = check_sqlite_schema(url); !fits) return fits.failure();
    sqlite::Options options;
    options.path = url.place;
    return sqlite::open_inbox(std::move(options));
}

Result<Migrated> migrate_sqlite(const StoreUrl& url) {
    const auto file = look_at(url.place);
    if (!file) return file.failure();
    Migrated migrated;
    if (*file == File::database) {
        const auto version = sqlite_version(url.place);
        if (!version) return version.failure();
        migrated.before = *version;
        if (*version > sqlite::schema_version) return sqlite::check_schema(*version, url.place.c_str()).failure();
    }
    sqlite::Options options;
    options.path = url.place;
    const auto store = sqlite::open(std::move(options));
    if (!store) return store.failure();
    migrated.after = sqlite::schema_version;
    return migrated;
}

// ---- PostgreSQL ------------------------------------------------------------------------------------------------

Result<Migrated> migrate_postgres(const StoreUrl& url) {
    postgres::Options options;
    options.uri = url.place;
    Migrated migrated;
    {
        auto wire = postgres::Wire::connect(options.uri, options.connect_timeout);
        if (!wire) return wire.failure();
        const auto version = postgres::schema_of(*wire, options.timeout);
        if (!version) return version.failure();
        migrated.before = *version;
    }
    const auto version = postgres::migrate(options);
    if (!version) return version.failure();
    migrated.after = *version;
    return migrated;
}

}  // namespace

std::string StoreUrl::text() const {
    return kind == Kind::sqlite ? "sqlite:" + place : postgres::without_password(place);
}

Result<StoreUrl> parse_store_url(std::string_view text) {
    if (text.empty())
        return refused("no store: give --store sqlite:PATH or postgres://USER@HOST/DATABASE, or set SEMEL_STORE");
    if (text.starts_with("sqlite:")) return parse_sqlite(text);
    if (text.starts_with("postgres://") || text.starts_with("postgresql://")) return parse_postgres(text);
    // Only the scheme is shown: the rest may hold a password.
    const auto colon = text.find(':');
    const bool has_scheme = colon != std::string_view::npos && text.find('@') != std::string_view::npos;
    return refused(fmt::format("store {}: no such kind of store; {}",
                               has_scheme ? in_quotes(fmt::format("{}:…", text.substr(0, colon))) : in_quotes(text),
                               right_forms));
}

Result<std::unique_ptr<Store>> open_store(const StoreUrl& url, Purpose purpose) {
    if (url.kind == StoreUrl::Kind::sqlite) return open_sqlite(url, purpose);
    postgres::Options options;
    options.uri = url.place;
    options.sessions_max = 1;
    return postgres::open(std::move(options));
}

Result<std::unique_ptr<Inbox>> open_inbox(const StoreUrl& url) {
    if (url.kind == StoreUrl::Kind::sqlite) return open_sqlite_inbox(url);
    postgres::Options options;
    options.uri = url.place;
    return postgres::open_inbox(std::move(options));
}

Result<std::unique_ptr<OutboxTable>> open_outbox(const StoreUrl& url, const std::string& name,
                                                 const std::string& relay) {
    if (url.kind == StoreUrl::Kind::sqlite) return sqlite::open_outbox({.path = url.place}, name, relay);
    return postgres::open_outbox({.uri = url.place}, name, relay);
}

Result<Migrated> migrate_store(const StoreUrl& url) {
    return url.kind == StoreUrl::Kind::sqlite ? migrate_sqlite(url) : migrate_postgres(url);
}

}  // namespace semel::cli
