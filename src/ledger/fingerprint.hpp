// Fingerprints of requests of which only parts count.
#pragma once

#include <optional>
#include <string>

#include "ledger/canonical_json.hpp"
#include "semel/fingerprint.hpp"

namespace semel {

struct FingerprintOptions {
    bool raw = false;       ///< the body is never read as JSON; `parts` does not apply
    JsonSelection parts{};  ///< what counts of a JSON body
    bool operator==(const FingerprintOptions&) const = default;
};

Fingerprint fingerprint_of(const Request& request, const FingerprintOptions& options);

/// The body in the form that counts, where it counts as JSON; nothing where its raw bytes do.
std::optional<std::string> canonical_body(const Request& request, const FingerprintOptions& options = {});

}  // namespace semel
