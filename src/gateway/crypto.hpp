// What the gateway needs of cryptography, over OpenSSL: keyed hashes, comparison in constant time, sealing.
//
// Nothing here fails for a reason of the world: a wrong tag is an answer, a refusal of OpenSSL's to do what
// it can do is a mistake of ours.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.hpp"
#include "base/random.hpp"

struct evp_mac_ctx_st;

namespace semel::gateway {

using Key32 = std::array<unsigned char, 32>;

/// HMAC-SHA256 under one key, made ready once. Thread safe.
class HmacSha256 {
public:
    /// Any length, also none.
    explicit HmacSha256(std::string_view key);

    /// Over the parts one after another, as if they were one. About a microsecond for short ones.
    [[nodiscard]] Sha256 of(std::span<const std::string_view> parts) const;
    [[nodiscard]] Sha256 of(std::initializer_list<std::string_view> parts) const {
        return of(std::span(parts.begin(), parts.size()));
    }

private:
    struct Free {
        void operator()(evp_mac_ctx_st* context) const;
    };
    std::unique_ptr<evp_mac_ctx_st, Free> keyed_;
};

/// Whether both are the same bytes, in a time that depends on their lengths only.
bool same_bytes(std::string_view a, std::string_view b);

// ---- AES-256-GCM ------------------------------------------------------------------------------------------------

inline constexpr std::size_t seal_nonce_bytes = 12;
inline constexpr std::size_t seal_tag_bytes = 16;
/// What sealing adds to a text.
inline constexpr std::size_t seal_bytes = seal_nonce_bytes + seal_tag_bytes;

/// Seals in place: `room` is seal_nonce_bytes to be filled, the text, and seal_tag_bytes to be filled. The nonce is
/// random, so one key must not seal more than 2^32 texts. `bound` is not part of the result, but opening needs the same.
void seal(const Key32& key, Random& random, std::string_view bound, std::span<char> room);

/// Opens in place what seal() made: the text, as a part of `sealed`. Empty: another key, another `bound` or other bytes
/// than were sealed; `sealed` is wiped then.
std::optional<std::span<char>> open(const Key32& key, std::string_view bound, std::span<char> sealed);

}  // namespace semel::gateway
