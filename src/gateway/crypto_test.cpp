#include "gateway/crypto.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace semel::gateway {
namespace {

std::string hmac_hex(std::string_view key, std::initializer_list<std::string_view> parts) {
    return to_hex(HmacSha256(key).of(parts));
}

// RFC 4231, test cases 1 to 3, 6 and 7.
TEST(HmacSha256, GivesWhatItsRfcSays) {
    EXPECT_EQ(hmac_hex(std::string(20, '\x0b'), {"Hi There"}),
              "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    EXPECT_EQ(hmac_hex("Jefe", {"what do ya want for nothing?"}),
              "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    EXPECT_EQ(hmac_hex(std::string(20, '\xaa'), {std::string(50, '\xdd')}),
              "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    const std::string long_key(131, '\xaa');
    EXPECT_EQ(hmac_hex(long_key, {"Test Using Larger Than Block-Size Key - Hash Key First"}),
              "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    EXPECT_EQ(
        hmac_hex(long_key, {"This is a test using a larger than block-size key and a larger than block-size data. "
                            "The key needs to be hashed before being used by the HMAC algorithm."}),
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(HmacSha256, TakesPartsAsOneAndCanBeAskedAgain) {
    const HmacSha256 hmac("Jefe");
    const Sha256 whole = hmac.of({"what do ya want for nothing?"});
    EXPECT_EQ(hmac.of({"what do ya ", "", "want for nothing?"}), whole);
    EXPECT_EQ(hmac.of({"what do ya want for nothing?"}), whole);
    EXPECT_NE(hmac.of({}), whole);
}

// printf '' | openssl dgst -sha256 -mac HMAC -macopt hexkey:00 and the empty key are one: keys are padded with zeros.
TEST(HmacSha256, TakesAnEmptyKey) {
    EXPECT_EQ(hmac_hex("", {""}), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
    EXPECT_EQ(hmac_hex(std::string_view("\0", 1), {}), hmac_hex("", {}));
}

TEST(HmacSha256, IsThreadSafe) {
    const HmacSha256 hmac("Jefe");
    const Sha256 right = hmac.of({"text"});
    std::vector<std::jthread> threads;
    std::atomic<int> wrong = 0;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int n = 0; n < 1000; ++n) wrong += hmac.of({"te", "xt"}) != right;
        });
    threads.clear();
    EXPECT_EQ(wrong, 0);
}

TEST(SameBytes, ComparesLengthAndBytes) {
    EXPECT_TRUE(same_bytes("", ""));
    EXPECT_TRUE(same_bytes("abc", "abc"));
    EXPECT_FALSE(same_bytes("abc", "abd"));
    EXPECT_FALSE(same_bytes("abc", "ab"));
    EXPECT_FALSE(same_bytes("", "a"));
}

struct Fixed final : Random {
    std::string bytes;
    explicit Fixed(std::string all) : bytes(std::move(all)) {}
    void fill(std::span<unsigned char> into) override {
        for (std::size_t i = 0; i < into.size(); ++i) into[i] = static_cast<unsigned char>(bytes.at(i));
    }
};

Key32 key_of(std::string_view hex) {
    Key32 key{};
    const std::string bytes = *from_hex(hex);
    std::copy_n(bytes.begin(), key.size(), key.begin());
    return key;
}

std::string sealed(const Key32& key, Random& random, std::string_view bound, std::string_view text) {
    std::string room = std::string(seal_nonce_bytes, '?') + std::string(text) + std::string(seal_tag_bytes, '?');
    seal(key, random, bound, room);
    return room;
}

std::optional<std::string> opened(const Key32& key, std::string_view bound, std::string room) {
    const auto text = open(key, bound, room);
    if (!text) return std::nullopt;
    return std::string(text->begin(), text->end());
}

// "The Galois/Counter Mode of Operation", test case 16.
TEST(Seal, IsAes256Gcm) {
    const Key32 key = key_of("feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308");
    Fixed nonce(*from_hex("cafebabefacedbaddecaf888"));
    const std::string text = *from_hex(
        "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a721c3c0c95956809532fcf0e2449a6b525b16aedf5aa0d"
        "e657ba637b39");
    const std::string bound = *from_hex("feedfacedeadbeeffeedfacedeadbeefabaddad2");
    const std::string room = sealed(key, nonce, bound, text);
    EXPECT_EQ(
        to_hex(room),
        "cafebabefacedbaddecaf888"
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa8cb08e48590dbb3da7b08b1056828838c5f61e6393ba"
        "7a0abcc9f662"
        "76fc6ece0f4e1768cddf8853bb2d551b");
    EXPECT_EQ(opened(key, bound, room), text);
}

TEST(Seal, OpensOnlyWithTheSameKeyAndBound) {
    SystemRandom random;
    const Key32 key = key_of(std::string(64, '1'));
    const Key32 other = key_of(std::string(64, '2'));
    for (const std::string text : {"", "x", "a longer text of more than one block"}) {
        const std::string room = sealed(key, random, "here", text);
        EXPECT_EQ(room.size(), text.size() + seal_bytes);
        EXPECT_EQ(opened(key, "here", room), text);
        EXPECT_EQ(opened(other, "here", room), std::nullopt);
        EXPECT_EQ(opened(key, "there", room), std::nullopt);
        EXPECT_EQ(opened(key, "", room), std::nullopt);
        EXPECT_EQ(opened(key, "here", room.substr(1)), std::nullopt);
        EXPECT_EQ(opened(key, "here", room.substr(0, seal_bytes - 1)), std::nullopt);
        EXPECT_NE(sealed(key, random, "here", text), room);
    }
    EXPECT_EQ(opened(key, "", sealed(key, random, "", "text")), "text");
}

TEST(Seal, LeavesNothingOfWhatItCouldNotOpen) {
    SystemRandom random;
    const Key32 key = key_of(std::string(64, '1'));
    std::string room = sealed(key, random, "", "text");
    room.back() = static_cast<char>(room.back() ^ 1);
    EXPECT_FALSE(open(key, "", room));
    EXPECT_EQ(room, std::string(room.size(), '\0'));
}

}  // namespace
}  // namespace semel::gateway
