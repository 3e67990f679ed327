// The form of a request in Claim::request: docs/formats/request.md. Where an operation in doubt may be sent again, the
// service is sent the bytes it was sent first, however the retry spells them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "gateway/config.hpp"
#include "gateway/sealing.hpp"
#include "http/fields.hpp"
#include "http/request.hpp"
#include "semel/operation.hpp"
#include "semel/result.hpp"

namespace semel::gateway {

/// What was sent first, read back. All views are of the bytes it was read from.
struct KeptRequest {
    std::optional<std::string_view> body{};  ///< empty: its hash is all that is kept
    http::Fields fields{};                   ///< of a kept body: those that describe it
    std::string_view hash{};                 ///< SHA-256 of a body that is not kept
};

/// Whether a field says what the bytes of a body are, and so belongs to them: type, coding, language, digests.
bool describes_body(std::string_view name);

/// Whether a request of the route has to be kept: where the policy is to send it again, unless every byte of the body is
/// in the fingerprint, so that a retry with other bytes is a mismatch. Events of a webhook are not: their signature is of
/// the bytes it came with, and their handler can take any delivery.
bool keeps_requests(const Route& route, bool fingerprint_of_every_byte);

/// Thread safe, as far as its Random is.
class RequestCodec {
public:
    /// Of Config::seal_keys, as Sealing::make. `random` must outlive the codec.
    static Result<RequestCodec> make(const std::vector<std::string>& seal_keys, Random& random);

    /// What the claim brings, at most Record::request_bytes_max: the body with the fields that describe it, no others.
    /// The body's hash alone when the route keeps no bodies (`keep: status`) and when the form would be larger.
    [[nodiscard]] std::string encode(const Route& route, const OperationId& id, const http::RequestHead& head,
                                     std::string_view body) const;

    /// Reads what encode() made for this operation. A sealed one is opened in place: `kept` is the plain form from then
    /// on, and must outlive the result unmoved.
    ///   corrupt      not the form, other bytes than were kept, or of another operation
    ///   unavailable  sealed with a key that is not among seal_keys
    [[nodiscard]] Result<KeptRequest> decode(const OperationId& id, std::string& kept) const;

private:
    explicit RequestCodec(Sealing sealing) : sealing_(std::move(sealing)) {}

    Sealing sealing_;
};

}  // namespace semel::gateway
