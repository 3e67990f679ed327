// Bytes: hex, big-endian and variable-length integers, SHA-256.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace semel {

std::string to_hex(std::string_view bytes);
template <std::size_t N>
std::string to_hex(const std::array<unsigned char, N>& bytes) {
    return to_hex(std::string_view(reinterpret_cast<const char*>(bytes.data()), N));
}
/// Empty when the text has an odd length or a character that is not a hex digit.
std::optional<std::string> from_hex(std::string_view text);

template <std::size_t N>
std::string_view view(const std::array<unsigned char, N>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), N};
}

using Sha256 = std::array<unsigned char, 32>;
Sha256 sha256(std::string_view bytes);

/// The first 16 bytes of a SHA-256.
std::array<unsigned char, 16> first_half(const Sha256& digest);

/// Appends to a byte string.
class ByteWriter {
public:
    void u8(std::uint8_t value) { out_.push_back(static_cast<char>(value)); }
    void be32(std::uint32_t value);
    void be64(std::uint64_t value);
    void varint(std::uint64_t value);  ///< LEB128
    void raw(std::string_view bytes) { out_.append(bytes); }
    void prefixed(std::string_view bytes);  ///< be32 length, then the bytes
    void counted(std::string_view bytes);   ///< varint length, then the bytes
    [[nodiscard]] const std::string& bytes() const { return out_; }
    std::string take() { return std::move(out_); }

private:
    std::string out_;
};

/// Reads what ByteWriter wrote. Every read past the end, and every over-long varint, makes it fail for good.
class ByteReader {
public:
    explicit ByteReader(std::string_view bytes) : left_(bytes) {}
    std::uint8_t u8();
    std::uint64_t be64();
    std::uint64_t varint();
    std::string_view raw(std::size_t count);
    std::string_view counted();
    [[nodiscard]] bool ok() const { return ok_; }
    [[nodiscard]] bool at_end() const { return left_.empty(); }

private:
    std::string_view left_;
    bool ok_ = true;
};

}  // namespace semel
