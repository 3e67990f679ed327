// Stores by their address: `sqlite:PATH` or `postgres://…`. The one place that names concrete stores.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "semel/inbox.hpp"
#include "semel/outbox.hpp"
#include "semel/store.hpp"

namespace semel::cli {

/// An address that has the right form; nothing was opened yet.
struct StoreUrl {
    enum class Kind { sqlite, postgres };
    Kind kind = Kind::sqlite;
    std::string place;  ///< the file's path, or all of the URI

    /// For people: without a password.
    [[nodiscard]] std::string text() const;
};
Result<StoreUrl> parse_store_url(std::string_view text);

enum class Purpose {
    read,    ///< find and list, beside an owner or without one
    change,  ///< commands and sweep: an embedded store must have no other owner
};

/// Opens a store that is there already; never makes one. `invalid` if there is none or its schema is not this program's.
Result<std::unique_ptr<Store>> open_store(const StoreUrl& url, Purpose purpose);

/// Opens the consumers' side of a store that is there already, beside its owner or without one; never makes one. `invalid` if
/// there is none or its schema is not this program's.
Result<std::unique_ptr<Inbox>> open_inbox(const StoreUrl& url);

/// One relay's side of an outbox. Does not look at the file of an embedded store first: this process may have others open.
Result<std::unique_ptr<OutboxTable>> open_outbox(const StoreUrl& url, const std::string& name,
                                                 const std::string& relay);

struct Migrated {
    int before = 0;  ///< zero: there was nothing of ours
    int after = 0;
};
/// Creates the store or brings its schema up to this program's. A newer one is `invalid` and left as it is.
Result<Migrated> migrate_store(const StoreUrl& url);

}  // namespace semel::cli
