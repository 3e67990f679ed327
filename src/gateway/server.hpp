// The gateway as a whole: a listener, one worker per core, the admin listener, the Ledger API's and the sweep.
//
// Life: start() listens, or says why not; reload() takes another configuration over between two requests; stop() drains:
// no new connection, every claimed operation is finished, and what cannot be finished in time is abandoned as unknown.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "gateway/config.hpp"
#include "gateway/log.hpp"
#include "http/service.hpp"
#include "semel/committer.hpp"
#include "semel/store.hpp"

namespace semel::gateway {

struct Stopped {
    bool in_time = true;        ///< false: Config::drain passed first
    std::size_t abandoned = 0;  ///< operations that became unknown by that
};

/// Makes the Ledger API of a configuration that has one, over the gateway's committer, which ends first.
using MakeApi = std::function<std::unique_ptr<http::Service>(const Api&, Committer&)>;

/// Used by one thread; serves on its own. The store and the logger must outlive it.
class Gateway {
public:
    /// Listening when it returns. `invalid` names the setting that cannot be used.
    static Result<std::unique_ptr<Gateway>> start(Config config, Store& store, Logger& log,
                                                  const MakeApi& make_api = nullptr);
    ~Gateway();
    Gateway(const Gateway&) = delete;
    Gateway& operator=(const Gateway&) = delete;

    /// Where it listens; port 0 in the configuration has become a real one.
    [[nodiscard]] Address address() const;
    [[nodiscard]] std::optional<Address> admin_address() const;
    /// Where the Ledger API is served; that of admin unless it has its own.
    [[nodiscard]] std::optional<Address> api_address() const;

    /// Takes a new configuration over without dropping a request. `invalid`, and nothing changes: it cannot be used, or
    /// changes what only a restart can (store, listen, admin, api, tenant, threads, log).
    Status reload(Config config);

    /// Drains and ends. Blocks. Afterwards nothing can be done with it.
    Stopped stop();

    /// What /metrics shows.
    [[nodiscard]] std::string metrics() const;

private:
    class Parts;
    explicit Gateway(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

/// A check of what reading the configuration cannot see: files of keys and certificates.
Status check_files(const Config& config);

}  // namespace semel::gateway
