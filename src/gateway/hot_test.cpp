#include "gateway/hot.hpp"

#include <gtest/gtest.h>

namespace semel::gateway {
namespace {

const SteadyTime start{std::chrono::hours{1}};

OperationId id_of(unsigned char number) {
    OperationId id;
    id.bytes[0] = number;
    return id;
}

HotEntry entry_of(std::string body) {
    HotEntry entry;
    entry.outcome = Outcome{201, std::move(body), true};
    return entry;
}

TEST(HotTier, KnowsWhatWasPut) {
    HotTier hot;
    EXPECT_EQ(hot.find(id_of(1), start), nullptr);
    hot.put(id_of(1), entry_of("one"), {}, Duration{0}, start, 1 << 20);
    ASSERT_NE(hot.find(id_of(1), start), nullptr);
    EXPECT_EQ(hot.find(id_of(1), start)->outcome.body, "one");
    EXPECT_EQ(hot.find(id_of(2), start), nullptr);
}

TEST(HotTier, NeverHoldsATombstoneOrALargeResponse) {
    HotTier hot;
    HotEntry tombstone;
    tombstone.outcome = Outcome::tombstone(201);
    hot.put(id_of(1), tombstone, {}, Duration{0}, start, 1 << 20);
    hot.put(id_of(2), entry_of(std::string(HotTier::entry_bytes_max + 1, 'x')), {}, Duration{0}, start, 1 << 20);
    EXPECT_EQ(hot.find(id_of(1), start), nullptr);
    EXPECT_EQ(hot.find(id_of(2), start), nullptr);
    EXPECT_EQ(hot.bytes(), 0U);
}

TEST(HotTier, ForgetsTheLeastRecentlyUsedFirstAndStaysWithinItsBytes) {
    HotTier hot;
    constexpr std::size_t bytes_max = 40'000;
    for (unsigned char i = 0; i < 3; ++i)
        hot.put(id_of(i), entry_of(std::string(10'000, 'x')), {}, Duration{0}, start, bytes_max);
    ASSERT_NE(hot.find(id_of(0), start), nullptr);
    hot.put(id_of(3), entry_of(std::string(10'000, 'x')), {}, Duration{0}, start, bytes_max);
    EXPECT_NE(hot.find(id_of(0), start), nullptr);
    EXPECT_EQ(hot.find(id_of(1), start), nullptr);
    EXPECT_LE(hot.bytes(), bytes_max);
}

TEST(HotTier, CountsTheRetentionFromWhenItWasSettled) {
    HotTier hot;
    Retention retention;
    retention.response = std::chrono::seconds{10};
    hot.put(id_of(1), entry_of("one"), retention, std::chrono::seconds{10}, start, 1 << 20);
    EXPECT_EQ(hot.find(id_of(1), start), nullptr);
    hot.put(id_of(1), entry_of("one"), retention, std::chrono::seconds{9}, start, 1 << 20);
    EXPECT_NE(hot.find(id_of(1), start), nullptr);
}

TEST(HotTier, ForgetsWhenTheRetentionEnds) {
    HotTier hot;
    Retention retention;
    retention.response = std::chrono::seconds{10};
    hot.put(id_of(1), entry_of("one"), retention, Duration{0}, start, 1 << 20);
    EXPECT_NE(hot.find(id_of(1), start + std::chrono::seconds{9}), nullptr);
    EXPECT_EQ(hot.find(id_of(1), start + std::chrono::seconds{10}), nullptr);
    EXPECT_EQ(hot.bytes(), 0U);
}

}  // namespace
}  // namespace semel::gateway
