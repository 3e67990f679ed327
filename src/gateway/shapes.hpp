// The names of every mapping in a configuration file. A name that is not here is refused, and one that is read without
// being here is a mistake; packaging/semel.schema.json has the same, under `$defs` by their kind.
#pragma once

#include <array>
#include <string_view>

#include "gateway/config.hpp"
#include "settings/setting.hpp"

namespace semel::gateway {

inline constexpr auto config_names =
    std::to_array<std::string_view>({"store", "listen", "admin", "api", "upstream", "tenant", "mode", "correlation",
                                     "seal", "drain", "threads", "limits", "log", "routes"});
inline constexpr Shape config_shape{"config", config_names};

inline constexpr auto listen_names = std::to_array<std::string_view>({"address", "tls"});
inline constexpr Shape listen_shape{"listen", listen_names};

inline constexpr auto api_names = std::to_array<std::string_view>({"tokens", "listen", "body_bytes_max", "timeout"});
inline constexpr Shape api_shape{"api", api_names};

inline constexpr auto api_token_names = std::to_array<std::string_view>({"name", "token", "tenant", "roles"});
inline constexpr Shape api_token_shape{"api_token", api_token_names};

inline constexpr auto upstream_names =
    std::to_array<std::string_view>({"servers", "tls", "connect_timeout", "response_timeout", "connections_max",
                                     "idle_connections_max", "idle_timeout", "failures_max", "failure_pause"});
inline constexpr Shape upstream_shape{"upstream", upstream_names};

inline constexpr auto tenant_names = std::to_array<std::string_view>(
    {"header", "jwt", "client_certificate", "peer_header", "peers", "secret", "previous_secrets"});
inline constexpr Shape tenant_shape{"tenant", tenant_names};

inline constexpr auto jwt_names =
    std::to_array<std::string_view>({"header", "claim", "algorithms", "key", "issuer", "audience", "leeway"});
inline constexpr Shape jwt_shape{"jwt", jwt_names};

inline constexpr auto correlation_names = std::to_array<std::string_view>({"header"});
inline constexpr Shape correlation_shape{"correlation", correlation_names};

inline constexpr auto seal_names = std::to_array<std::string_view>({"key", "previous_keys"});
inline constexpr Shape seal_shape{"seal", seal_names};

inline constexpr auto limits_names = std::to_array<std::string_view>(
    {"head_bytes_max", "target_bytes_max", "field_bytes_max", "fields_max", "connections_max", "pass_bytes_max",
     "waiting_max", "unsettled_max", "unsettled_bytes_max", "hot_bytes_max", "head_timeout", "body_timeout",
     "idle_timeout", "write_timeout", "claim_timeout", "settle_answer", "settle_timeout"});
inline constexpr Shape limits_shape{"limits", limits_names};

inline constexpr auto log_names = std::to_array<std::string_view>({"level", "file"});
inline constexpr Shape log_shape{"log", log_names};

inline constexpr auto route_names = std::to_array<std::string_view>({"name",
                                                                     "match",
                                                                     "key",
                                                                     "key_from",
                                                                     "format",
                                                                     "generation",
                                                                     "fingerprint",
                                                                     "retention",
                                                                     "response_retention",
                                                                     "lease",
                                                                     "effect_deadline",
                                                                     "on_unknown",
                                                                     "dedup_window",
                                                                     "on_busy",
                                                                     "on_store_failure",
                                                                     "natural",
                                                                     "mode",
                                                                     "release_on",
                                                                     "conclusive",
                                                                     "drop_headers",
                                                                     "redact",
                                                                     "keep",
                                                                     "replay_auth",
                                                                     "webhook",
                                                                     "quota",
                                                                     "upstream",
                                                                     "request_bytes_max",
                                                                     "response_bytes_max"});
inline constexpr Shape route_shape{"route", route_names};

inline constexpr auto key_source_names = std::to_array<std::string_view>({"header", "body"});
inline constexpr Shape key_source_shape{"key_source", key_source_names};

inline constexpr auto fingerprint_names = std::to_array<std::string_view>({"include", "exclude"});
inline constexpr Shape fingerprint_shape{"fingerprint", fingerprint_names};

inline constexpr auto on_busy_names = std::to_array<std::string_view>({"wait"});
inline constexpr Shape on_busy_shape{"on_busy", on_busy_names};

inline constexpr auto webhook_names = std::to_array<std::string_view>({"provider", "id", "type", "signature"});
inline constexpr Shape webhook_shape{"webhook", webhook_names};

inline constexpr auto signature_names =
    std::to_array<std::string_view>({"scheme", "secret", "previous_secrets", "header", "prefix", "encoding",
                                     "timestamp_header", "payload", "tolerance"});
inline constexpr Shape signature_shape{"signature", signature_names};

inline constexpr auto quota_names = std::to_array<std::string_view>({"new_keys_max", "window", "open_max"});
inline constexpr Shape quota_shape{"quota", quota_names};

}  // namespace semel::gateway
