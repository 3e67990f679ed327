// The names of things: which operation (scope, key), whose request (fingerprint), which holder (token, attempt).
// Each is a type of its own so that none can stand in for another.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "semel/result.hpp"
#include "semel/time.hpp"

namespace semel {

/// Whose and where: tenant, route name or consumer group, and replay generation.
/// Written as `tenant/name#generation`; `#0` and an absent tenant are left out.
class Scope {
public:
    static constexpr std::size_t tenant_bytes_max = 255;
    static constexpr std::size_t name_bytes_max = 255;

    /// tenant: 0–255 characters of 0x21–0x7E without '/' and '#'; empty means "no tenant".
    /// name: 1–255 characters of 0x20–0x7E without '#'.
    static Result<Scope> make(std::string tenant, std::string name, std::uint32_t generation = 0);
    /// Reads the written form. Without a '/' there is no tenant; a leading '/' says so explicitly.
    static Result<Scope> parse(std::string_view text);

    [[nodiscard]] const std::string& tenant() const { return tenant_; }
    [[nodiscard]] const std::string& name() const { return name_; }
    [[nodiscard]] std::uint32_t generation() const { return generation_; }
    [[nodiscard]] std::string text() const;
    [[nodiscard]] Scope with_generation(std::uint32_t generation) const;

    auto operator<=>(const Scope&) const = default;

private:
    Scope(std::string tenant, std::string name, std::uint32_t generation);
    std::string tenant_;
    std::string name_;
    std::uint32_t generation_ = 0;
};

enum class KeyFormat { any, uuid, uuidv7 };

/// Which one: minted by whoever started the work, the same on every retry. 1–255 characters of 0x20–0x7E.
class Key {
public:
    static constexpr std::size_t bytes_max = 255;

    static Result<Key> parse(std::string text, KeyFormat format = KeyFormat::any);

    [[nodiscard]] const std::string& text() const { return text_; }
    /// The time inside a UUIDv7 key, if it is one (any letter case).
    [[nodiscard]] std::optional<TimePoint> time() const;

    auto operator<=>(const Key&) const = default;

private:
    explicit Key(std::string text) : text_(std::move(text)) {}
    std::string text_;
};

/// 16 bytes under which a store finds an operation: the first half of SHA-256 over its length-prefixed parts.
struct OperationId {
    std::array<unsigned char, 16> bytes{};
    auto operator<=>(const OperationId&) const = default;
};

struct Operation {
    Scope scope;
    Key key;
    [[nodiscard]] OperationId id() const;
    [[nodiscard]] std::string text() const;  ///< `scope key`, for people
    auto operator<=>(const Operation&) const = default;
};

/// What the request said: the first half of a SHA-256, with the version of the rules that made it.
struct Fingerprint {
    std::array<unsigned char, 16> bytes{};
    std::uint8_t version = 1;
    auto operator<=>(const Fingerprint&) const = default;
};

/// The right to settle: from one store-wide counter that only grows (I3). Zero is no token.
struct Token {
    std::uint64_t value = 0;
    auto operator<=>(const Token&) const = default;
};

/// One call of claim(): 16 random bytes, minted per call, never persisted by the caller, never reused (I6).
struct Attempt {
    std::array<unsigned char, 16> bytes{};
    auto operator<=>(const Attempt&) const = default;
};

/// One run of an owning process over an embedded store. Zero where the store has a clock and leases of its own.
struct Epoch {
    std::uint64_t value = 0;
    auto operator<=>(const Epoch&) const = default;
};

/// How long an operation is remembered, and how long the answer it got. Empty: for ever.
struct Retention {
    std::optional<Duration> identity{};
    std::optional<Duration> response = std::chrono::hours{24};
    bool operator==(const Retention&) const = default;
};

/// What the effect came to. `kept` is false for a tombstone: done, with this status, body not stored (I8) or dropped.
struct Outcome {
    std::int32_t status = 0;
    std::string body{};
    bool kept = true;

    static Outcome tombstone(std::int32_t status) { return {status, {}, false}; }
    bool operator==(const Outcome&) const = default;
};

}  // namespace semel

template <>
struct std::hash<semel::OperationId> {
    std::size_t operator()(const semel::OperationId& id) const noexcept;
};
