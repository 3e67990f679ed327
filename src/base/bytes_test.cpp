#include "base/bytes.hpp"

#include <gtest/gtest.h>

namespace semel {
namespace {

// FIPS 180-4's examples.
TEST(Bytes, Sha256IsTheStandards) {
    EXPECT_EQ(to_hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    EXPECT_EQ(to_hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    EXPECT_EQ(to_hex(first_half(sha256("abc"))), "ba7816bf8f01cfea414140de5dae2223");
}

TEST(Bytes, HexIsReadBackInEitherCase) {
    EXPECT_EQ(to_hex(std::string_view("\x00\x7f\xff", 3)), "007fff");
    EXPECT_EQ(from_hex("007fFF"), std::string("\x00\x7f\xff", 3));
    EXPECT_EQ(from_hex(""), "");
    for (const std::string_view bad : {"0", "0g", "0x00", " 00", "-1"}) EXPECT_EQ(from_hex(bad), std::nullopt) << bad;
}

TEST(Bytes, ReadsBackWhatWasWritten) {
    ByteWriter writer;
    writer.u8(7);
    writer.be64(0x0102030405060708);
    for (const std::uint64_t value : {0ull, 127ull, 128ull, 300ull, ~0ull}) writer.varint(value);
    writer.counted("hello");
    writer.counted("");
    ByteReader reader(writer.bytes());
    EXPECT_EQ(reader.u8(), 7);
    EXPECT_EQ(reader.be64(), 0x0102030405060708u);
    for (const std::uint64_t value : {0ull, 127ull, 128ull, 300ull, ~0ull}) EXPECT_EQ(reader.varint(), value);
    EXPECT_EQ(reader.counted(), "hello");
    EXPECT_EQ(reader.counted(), "");
    EXPECT_TRUE(reader.ok());
    EXPECT_TRUE(reader.at_end());
}

TEST(Bytes, LengthPrefixesAreBigEndian) {
    ByteWriter writer;
    writer.prefixed("ab");
    writer.be32(0x01020304);
    EXPECT_EQ(to_hex(writer.bytes()), "00000002616201020304");
}

TEST(Bytes, ReadingPastTheEndFailsForGood) {
    ByteReader reader(
        "\x05"
        "abc");
    EXPECT_EQ(reader.counted(), "");
    EXPECT_FALSE(reader.ok());
    EXPECT_EQ(reader.u8(), 0);
    EXPECT_FALSE(reader.ok());
}

TEST(Bytes, AnOverlongVarintFails) {
    ByteReader reader("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    EXPECT_EQ(reader.varint(), 0u);
    EXPECT_FALSE(reader.ok());
}

}  // namespace
}  // namespace semel
