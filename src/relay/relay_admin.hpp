// The relay's admin listener: health and metrics; nothing that changes anything.
//
//   GET /health, /healthz    200 while the process serves
//   GET /ready, /readyz      200, or 503 with the reason: a relay is paused or has ended, the store is away
//   GET /metrics             Prometheus
//
// Where a token is set, metrics and the reason are for those who show it.
//
// A few threads, each with one connection at a time, one request on it, and a short deadline for all of that.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "semel/result.hpp"
#include "settings/listeners.hpp"

namespace semel::relay {

class RelayAdmin {
public:
    static constexpr std::size_t connections_max = 4;  ///< served at once; as many more wait as the system lets

    /// What it tells. Called from its threads, several at once.
    struct Views {
        std::function<std::string()> not_ready;  ///< why not; empty: ready
        std::function<std::string()> metrics;
    };

    /// Listening when it returns. `invalid` names the setting that is wrong.
    static Result<std::unique_ptr<RelayAdmin>> start(const settings::Admin& admin, Views views);
    ~RelayAdmin();
    RelayAdmin(const RelayAdmin&) = delete;
    RelayAdmin& operator=(const RelayAdmin&) = delete;

    [[nodiscard]] settings::Address address() const;

private:
    class Parts;
    explicit RelayAdmin(std::unique_ptr<Parts> parts);
    std::unique_ptr<Parts> parts_;
};

/// Whether the files that `admin.tls` names can be used; for a check before anything is started.
Status check_admin_files(const settings::Admin& admin);

}  // namespace semel::relay
