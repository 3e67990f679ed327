#include "semel/keys.hpp"

#include <algorithm>
#include <array>

#include "base/bytes.hpp"
#include "ledger/mint.hpp"

namespace semel {
namespace {

using Uuid = std::array<unsigned char, 16>;

// Sets version and variant (RFC 9562) over the other bits and writes the key in lower case.
Key uuid_key(Uuid bytes, unsigned version) {
    bytes[6] = static_cast<unsigned char>(version << 4 | (bytes[6] & 0x0f));
    bytes[8] = static_cast<unsigned char>(0x80 | (bytes[8] & 0x3f));
    std::string text = to_hex(bytes);
    for (const std::size_t dash : {8u, 13u, 18u, 23u}) text.insert(dash, 1, '-');
    return Key::parse(std::move(text), KeyFormat::uuid).value();
}

}  // namespace

Key mint_uuid4(Random& random) {
    Uuid bytes{};
    random.fill(bytes);
    return uuid_key(bytes, 4);
}

Key mint_uuid7(Random& random, TimePoint at) {
    Uuid bytes{};
    random.fill(bytes);
    const auto since_1970 = std::chrono::floor<std::chrono::milliseconds>(at.time_since_epoch()).count();
    auto millis = static_cast<std::uint64_t>(std::max<std::int64_t>(since_1970, 0));
    for (std::size_t i = 6; i-- > 0; millis >>= 8) bytes[i] = static_cast<unsigned char>(millis);
    return uuid_key(bytes, 7);
}

Attempt mint_attempt(Random& random) {
    Attempt attempt;
    random.fill(attempt.bytes);
    return attempt;
}

Key mint_uuid4() {
    SystemRandom random;
    return mint_uuid4(random);
}

Key mint_uuid7(std::chrono::system_clock::time_point at) {
    SystemRandom random;
    return mint_uuid7(random, TimePoint{std::chrono::floor<Duration>(at.time_since_epoch())});
}

Attempt mint_attempt() {
    SystemRandom random;
    return mint_attempt(random);
}

// docs/formats/keys.md: these bytes are for ever.
Key derive(const Operation& parent, std::string_view step, std::uint32_t business_attempt) {
    ByteWriter bytes;
    bytes.prefixed("semel/derive/1");
    bytes.prefixed(parent.scope.tenant());
    bytes.prefixed(parent.scope.name());
    bytes.be32(parent.scope.generation());
    bytes.prefixed(parent.key.text());
    bytes.prefixed(step);
    bytes.be32(business_attempt);
    return uuid_key(first_half(sha256(bytes.bytes())), 8);
}

}  // namespace semel
