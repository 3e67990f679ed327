// The form of a response in Outcome::body: docs/formats/response.md. What may be kept of an upstream's answer is decided
// here, once, when it is stored; what may be answered from it is checked again when it is replayed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "gateway/config.hpp"
#include "gateway/sealing.hpp"
#include "http/fields.hpp"
#include "http/response.hpp"
#include "semel/operation.hpp"
#include "semel/result.hpp"

namespace semel::gateway {

/// Whatever response_bytes_max says: the ledger takes no larger outcome.
inline constexpr std::size_t stored_bytes_max = 64U << 20;

/// What stands in a stored body for a value that `redact` names.
inline constexpr std::string_view redacted_value = R"("[redacted]")";

/// A response read back. All views are of the outcome it was read from.
struct StoredResponse {
    int status = 0;           ///< 200 to 599
    std::string_view reason;  ///< empty: the standard one
    http::Fields fields;      ///< none about framing: the writer adds its own
    std::string_view body;    ///< empty with 204 and 304
};

/// Whether a field of an answer may be stored: it goes on to the next hop, is no credential and no cookie (Set-Cookie,
/// Set-Cookie2, WWW-Authenticate, Authorization, Authentication-Info), and is not one that this gateway sets itself
/// (Idempotent-Replayed, Semel-*).
bool may_be_stored(const http::Field& field, const http::ConnectionOptions& connection);

/// Thread safe, as far as its Random is.
class ResponseCodec {
public:
    /// Of Config::seal_keys, as Sealing::make. `random` must outlive the codec.
    static Result<ResponseCodec> make(const std::vector<std::string>& seal_keys, Random& random);

    /// What to settle with: the whole answer but for the fields that may not be stored, route.drop_headers, and
    /// route.redact, where every other byte of the body stays. A tombstone, with the status alone, when the route keeps no
    /// more, when the form is larger than response_bytes_max or stored_bytes_max, and when there is something to redact in
    /// a body that cannot be read as JSON. `body` is whole, without chunking; head.status is 200 to 599.
    [[nodiscard]] Outcome encode(const Route& route, const OperationId& id, const http::ResponseHead& head,
                                 std::string_view body) const;

    /// Reads what encode() made for this operation; a sealed one is opened in place, and outcome.body is the unsealed form
    /// from then on. A body that encode() did not make is what an application stored by SQL, or a person by resolving: it
    /// is answered as JSON if it is that, else as text, or as plain bytes if it is not UTF-8; status 0 means 200.
    /// outcome.kept must be true, and `outcome` outlive the result unmoved.
    ///   corrupt      nothing of it may be answered: not the form, other bytes than were stored, or of another operation
    ///   unavailable  sealed with a key that is not among seal_keys
    [[nodiscard]] Result<StoredResponse> decode(const OperationId& id, Outcome& outcome) const;

private:
    explicit ResponseCodec(Sealing sealing) : sealing_(std::move(sealing)) {}
    [[nodiscard]] Status open_in_place(const OperationId& id, Outcome& outcome) const;

    Sealing sealing_;
};

/// The body with every value that a pointer finds replaced by redacted_value, every other byte as it was. Pointers that
/// find nothing change nothing. Empty: the body is not JSON (JsonDocument::parse), so what to cut cannot be known.
std::optional<std::string> redacted(std::string_view body, const std::vector<JsonPointer>& pointers);

}  // namespace semel::gateway
