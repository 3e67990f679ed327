#include "base/bytes.hpp"

#include <openssl/evp.h>

#include <algorithm>

#include "base/assert.hpp"

namespace semel {

std::string to_hex(std::string_view bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (unsigned char byte : bytes) {
        text.push_back(digits[byte >> 4]);
        text.push_back(digits[byte & 15]);
    }
    return text;
}

namespace {
int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}
}  // namespace

std::optional<std::string> from_hex(std::string_view text) {
    if (text.size() % 2 != 0) return std::nullopt;
    std::string bytes;
    bytes.reserve(text.size() / 2);
    for (std::size_t i = 0; i < text.size(); i += 2) {
        const int high = digit(text[i]);
        const int low = digit(text[i + 1]);
        if (high < 0 || low < 0) return std::nullopt;
        bytes.push_back(static_cast<char>(high * 16 + low));
    }
    return bytes;
}

Sha256 sha256(std::string_view bytes) {
    // Looked up once: SHA256() looks its algorithm up, under a lock, on every call.
    static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
    Sha256 digest;
    const int done = EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, algorithm, nullptr);
    SEMEL_ASSERT(done == 1, "OpenSSL has SHA-256");
    return digest;
}

std::array<unsigned char, 16> first_half(const Sha256& digest) {
    std::array<unsigned char, 16> half{};
    std::copy_n(digest.begin(), half.size(), half.begin());
    return half;
}

void ByteWriter::be32(std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) u8(static_cast<std::uint8_t>(value >> shift));
}

void ByteWriter::be64(std::uint64_t value) {
    for (int shift = 56; shift >= 0; shift -= 8) u8(static_cast<std::uint8_t>(value >> shift));
}

void ByteWriter::varint(std::uint64_t value) {
    while (value >= 0x80) {
        u8(static_cast<std::uint8_t>(value | 0x80));
        value >>= 7;
    }
    u8(static_cast<std::uint8_t>(value));
}

void ByteWriter::prefixed(std::string_view bytes) {
    SEMEL_ASSERT(bytes.size() <= UINT32_MAX, "a length prefix that wraps would make two inputs one");
    be32(static_cast<std::uint32_t>(bytes.size()));
    raw(bytes);
}

void ByteWriter::counted(std::string_view bytes) {
    varint(bytes.size());
    raw(bytes);
}

std::string_view ByteReader::raw(std::size_t count) {
    if (count > left_.size()) {
        ok_ = false;
        left_ = {};
        return {};
    }
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
}

std::uint8_t ByteReader::u8() {
    const std::string_view byte = raw(1);
    return byte.empty() ? 0 : static_cast<std::uint8_t>(byte[0]);
}

std::uint64_t ByteReader::be64() {
    std::uint64_t value = 0;
    for (unsigned char byte : raw(8)) value = value << 8 | byte;
    return value;
}

std::uint64_t ByteReader::varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        const std::uint8_t byte = u8();
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    ok_ = false;
    return 0;
}

std::string_view ByteReader::counted() {
    const std::uint64_t count = varint();
    return raw(count);
}

}  // namespace semel
