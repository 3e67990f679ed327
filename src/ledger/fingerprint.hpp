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

/// The fingerprint of a request, and whether every byte of its body counts in it: then whoever has the same fingerprint
/// has the same body, else perhaps another spelling of it, or other parts that do not count.
struct RequestPrint {
    Fingerprint fingerprint{};
    bool of_every_byte = true;
};
RequestPrint print_of(const Request& request, const FingerprintOptions& options);

/// The body in the form that counts, where it counts as JSON; nothing where its raw bytes do.
std::optional<std::string> canonical_body(const Request& request, const FingerprintOptions& options = {});

}  // namespace semel
