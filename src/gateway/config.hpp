// What semel.yaml says, as plain values: every setting with its default, every limit with its name. Reading the file is
// config_reader.hpp's; docs/configuration.md and packaging/semel.schema.json say the same.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/fingerprint.hpp"
#include "ledger/json_pointer.hpp"
#include "semel/operation.hpp"
#include "semel/record.hpp"
#include "settings/addresses.hpp"
#include "settings/listeners.hpp"
#include "settings/mark.hpp"
#include "settings/values.hpp"

namespace semel::gateway {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using namespace settings;  // NOLINT(google-build-using-namespace): what every configuration is made of

struct Listen {
    Address address{};
    std::optional<ServerTls> tls{};
    bool operator==(const Listen&) const = default;
};

struct Upstream {
    std::vector<UpstreamServer> servers{};  ///< at least one; used in turn
    ClientTls tls{};
    Duration connect_timeout = seconds{2};
    Duration response_timeout =
        seconds{60};                    ///< from the last byte sent to the last byte of the answer, per keyed request;
                                        ///< between two reads of anything else
    std::size_t connections_max = 512;  ///< to each server, from each thread; more wait
    std::size_t idle_connections_max = 64;  ///< kept open of those
    Duration idle_timeout = seconds{30};    ///< how long an idle one is kept
    std::size_t failures_max = 3;           ///< failed connects in a row after which a server is left alone
    Duration failure_pause = seconds{5};    ///< for this long
    bool operator==(const Upstream&) const = default;
};

/// Whose requests these are. Exactly one way of telling.
struct Tenant {
    enum class From : std::uint8_t {
        none,                ///< one tenant for everybody, said explicitly
        header,              ///< a credential; only its keyed hash is kept
        jwt,                 ///< a claim of a verified token
        client_certificate,  ///< the subject of the client's certificate
        peer_header,         ///< a header that only `peers` may set; removed from anyone else's request
    };
    From from = From::none;
    std::string header{};              ///< of header, jwt (default Authorization) and peer_header
    std::vector<std::string> peers{};  ///< of peer_header: addresses or networks, `10.0.0.0/8`, `::1`
    // of jwt
    std::string claim = "sub";
    std::vector<std::string> algorithms{};  ///< of HS256, RS256, ES256
    std::string key{};                      ///< HS256: the shared secret; else a PEM file's path
    std::string issuer{};                   ///< empty: not checked
    std::string audience{};                 ///< empty: not checked
    Duration leeway = seconds{30};
    /// Wraps the key of the hash in the store. The first is the one in use; the others are accepted while they are being
    /// replaced. Empty: the key is kept in the store as it is, and start-up warns.
    std::vector<std::string> secrets{};
    bool operator==(const Tenant&) const = default;
};

enum class KeyUse : std::uint8_t { required, optional, ignored };
enum class Mode : std::uint8_t { enforce, observe };
enum class OnStoreFailure : std::uint8_t { closed, open };
enum class Keep : std::uint8_t { response, status };

/// A place where a key may be. Tried in order; the first that is there counts.
struct KeySource {
    enum class In : std::uint8_t { header, body };
    In in = In::header;
    std::string header = "Idempotency-Key";
    std::optional<JsonPointer> pointer{};  ///< of body
    bool operator==(const KeySource&) const = default;
};

/// How a provider signs its events. HMAC-SHA256 over a template, compared in constant time.
struct Signature {
    enum class Scheme : std::uint8_t {
        stripe,  ///< `Stripe-Signature: t=…,v1=…` over `{t}.{body}`
        github,  ///< `X-Hub-Signature-256: sha256=…` over the body
        hmac,    ///< as the following say
    };
    enum class Encoding : std::uint8_t { hex, base64 };
    Scheme scheme = Scheme::hmac;
    std::vector<std::string> secrets{};  ///< any of them; more than one while they are being replaced
    std::string header{};                ///< holds the signature
    std::string prefix{};                ///< before the signature in the header: `sha256=`
    Encoding encoding = Encoding::hex;
    std::string timestamp_header{};   ///< seconds since 1970; empty: none, and no tolerance
    std::string payload = "{body}";   ///< what is signed, with {body} and {timestamp}
    Duration tolerance = minutes{5};  ///< of the timestamp, both ways
    bool operator==(const Signature&) const = default;
};

struct Webhook {
    std::string provider{};             ///< the fixed tenant of its events: `stripe`
    JsonPointer id;                     ///< of the event
    std::optional<JsonPointer> type{};  ///< of the event
    std::optional<Signature> signature{};
    bool operator==(const Webhook&) const = default;
};

struct Quota {
    std::size_t new_keys_max = 0;  ///< per tenant, route and `window`; 0: no limit
    Duration window = minutes{1};
    std::size_t open_max = 0;  ///< operations running at once per tenant and route; 0: no limit
    bool operator==(const Quota&) const = default;
};

/// A pattern: a method and a path in which `{name}` stands for one segment and a last `*` for the rest.
struct Match {
    std::string method{};                 ///< `*`: any
    std::vector<std::string> segments{};  ///< literal as written, or "{}" for one of anything
    bool rest = false;                    ///< ends in `*`
    std::string text{};                   ///< as written
    bool operator==(const Match&) const = default;
};

struct Route {
    Mark mark{};
    std::string name{};  ///< part of the identity; default: the match text
    Match match{};
    KeyUse key = KeyUse::required;
    bool key_of_post_and_patch = false;  ///< the match is for any method and `key` is not written: see key_for
    std::vector<KeySource> key_from{KeySource{}};
    KeyFormat format = KeyFormat::any;
    std::uint32_t generation = 0;
    FingerprintOptions fingerprint{};
    Policy policy{};  ///< lease, retention, response_retention, on_unknown, dedup_window, effect_deadline
    std::optional<Duration> busy_wait{};  ///< on_busy: {wait: 2s}; empty: conflict
    OnStoreFailure on_store_failure = OnStoreFailure::closed;
    bool natural = false;
    Mode mode = Mode::enforce;
    std::vector<int> release_on{};
    std::vector<int> conclusive{};
    std::vector<std::string> drop_headers{};  ///< never stored, besides those that never are
    std::vector<JsonPointer> redact{};        ///< parts of a JSON body that are not stored
    Keep keep = Keep::response;
    std::string replay_auth{};  ///< a path at the upstream that must answer 2xx; empty: none
    std::optional<Webhook> webhook{};
    Quota quota{};
    std::optional<Upstream> upstream{};  ///< empty: the file's
    std::size_t request_bytes_max = 1U << 20;
    std::size_t response_bytes_max = 1U << 20;  ///< of the stored form; a larger one settles as a tombstone

    /// What `key` is for a request of that method.
    [[nodiscard]] KeyUse key_for(std::string_view method) const;
    bool operator==(const Route&) const = default;
};

struct Limits {
    std::size_t head_bytes_max = 32 * 1024;
    std::size_t target_bytes_max = 8 * 1024;
    std::size_t field_bytes_max = 8 * 1024;
    std::size_t fields_max = 100;
    std::size_t connections_max = 16384;    ///< of clients; more are closed at once
    std::size_t pass_bytes_max = 1U << 30;  ///< body of a request that is passed through
    std::size_t waiting_max = 1024;         ///< duplicates that wait (on_busy), per thread
    std::size_t unsettled_max = 10000;      ///< outcomes whose settling is tried again in the background
    std::size_t unsettled_bytes_max = 64U << 20;
    std::size_t hot_bytes_max = 32U << 20;  ///< settled responses kept in memory, per thread; 0: none
    Duration head_timeout = seconds{10};    ///< from the first byte of a head to its last
    Duration body_timeout = seconds{30};    ///< for the whole body of a keyed request; between two reads of another
    Duration idle_timeout = seconds{75};    ///< between two requests
    Duration write_timeout = seconds{30};   ///< between two writes to a client
    Duration claim_timeout = seconds{2};    ///< then the store has failed
    Duration settle_answer = seconds{2};    ///< then the client gets its answer while settling goes on
    Duration settle_timeout = minutes{5};   ///< then the outcome is given up, and stays unknown
    bool operator==(const Limits&) const = default;
};

/// A credential of the Ledger API.
struct ApiToken {
    std::string name{};    ///< who it is: written down with what it resolves
    std::string token{};   ///< shown as `Authorization: Bearer`
    std::string tenant{};  ///< whose operations
    bool hold = false;     ///< the role: claim to abandon, and find
    bool read = false;     ///< find
    bool resolve = false;  ///< resolve, and find
    bool operator==(const ApiToken&) const = default;
};

/// The ledger over HTTP and JSON, for services that ask it themselves.
struct Api {
    std::vector<ApiToken> tokens{};  ///< at least one
    std::optional<Listen> listen{};  ///< empty: on the admin listener
    std::size_t body_bytes_max = 4U << 20;
    Duration timeout = seconds{5};  ///< then the store has failed
    bool operator==(const Api&) const = default;
};

struct Log {
    enum class Level : std::uint8_t { error, warning, info };
    Level level = Level::info;
    std::string file{};  ///< empty: standard error
    bool operator==(const Log&) const = default;
};

struct Config {
    std::string file{};
    std::string store{};  ///< as written: `sqlite:semel.db`
    Listen listen{};
    std::optional<Admin> admin{};
    std::optional<Api> api{};  ///< empty: not served
    Upstream upstream{};
    Tenant tenant{};
    Mode mode = Mode::enforce;  ///< of every route that does not say its own; Route::mode is what counts
    std::string correlation_header = "X-Correlation-Id";
    std::vector<std::string> seal_keys{};  ///< 64 hex digits each; the first seals, all open; empty: not sealed
    Duration drain = seconds{30};
    std::size_t threads = 0;  ///< 0: one per core
    Limits limits{};
    Log log{};
    std::vector<Route> routes{};
    bool operator==(const Config&) const = default;
};

}  // namespace semel::gateway
