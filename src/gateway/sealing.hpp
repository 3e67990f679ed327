// The keys of `seal`, and one way to use them on everything the gateway stores: which key, a nonce, AES-256-GCM over
// the text, a tag (docs/formats/response.md). A text is bound to what it is and to its operation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "gateway/crypto.hpp"
#include "semel/operation.hpp"
#include "semel/result.hpp"

namespace semel::gateway {

/// Thread safe, as far as its Random is.
class Sealing {
public:
    /// Config::seal_keys: the first seals, all open; none: nothing is sealed. A key that is not 64 hex digits is
    /// `invalid`. `random` must outlive this.
    static Result<Sealing> make(const std::vector<std::string>& seal_keys, Random& random);

    static constexpr std::size_t key_id_bytes = 8;
    /// What sealing adds to a text.
    static constexpr std::size_t bytes = key_id_bytes + seal_bytes;

    /// What a text is. Names are for ever.
    struct Kind {
        std::string_view what;   ///< for people: `stored response`
        std::string_view name;   ///< `semel/response/1`
        std::string_view label;  ///< of the key that is derived for each operation: `semel/response-key/1`
    };

    [[nodiscard]] bool on() const { return !keys_.empty(); }

    /// Appends what stands before a text. Then the text is appended, then end() is called with where this began.
    void begin(std::string& out) const;
    void end(std::string& out, std::size_t began, const Kind& kind, const OperationId& id,
             std::string_view bound) const;

    /// Opens in place what stands from `began` on, to the end: afterwards that is the text alone.
    ///   corrupt      not sealed so, or changed since
    ///   unavailable  sealed with a key that is not among seal_keys
    [[nodiscard]] Status open(std::string& in, std::size_t began, const Kind& kind, const OperationId& id,
                              std::string_view bound) const;

private:
    struct SealKey {
        std::string id;  // 8 bytes of a hash of the key
        HmacSha256 derive;
    };
    explicit Sealing(Random& random) : random_(&random) {}

    std::vector<SealKey> keys_;
    Random* random_;
};

}  // namespace semel::gateway
