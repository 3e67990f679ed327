#include "gateway/hot.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace semel::gateway {
namespace {

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
    EXPECT_EQ(hot.find(id_of(1)), nullptr);
    hot.put(id_of(1), entry_of("one"), {}, Duration{0}, 1 << 20);
    ASSERT_NE(hot.find(id_of(1)), nullptr);
    EXPECT_EQ(hot.find(id_of(1))->outcome.body, "one");
    EXPECT_EQ(hot.find(id_of(2)), nullptr);
}

TEST(HotTier, NeverHoldsATombstoneOrALargeResponse) {
    HotTier hot;
    HotEntry tombstone;
    tombstone.outcome = Outcome::tombstone(201);
    hot.put(id_of(1), tombstone, {}, Duration{0}, 1 << 20);
    hot.put(id_of(2), entry_of(std::string(HotTier::entry_bytes_max + 1, 'x')), {}, Duration{0}, 1 << 20);
    EXPECT_EQ(hot.find(id_of(1)), nullptr);
    EXPECT_EQ(hot.find(id_of(2)), nullptr);
    EXPECT_EQ(hot.bytes(), 0U);
}

TEST(HotTier, ForgetsTheLeastRecentlyUsedFirstAndStaysWithinItsBytes) {
    HotTier hot;
    constexpr std::size_t bytes_max = 40'000;
    for (unsigned char i = 0; i < 3; ++i)
        hot.put(id_of(i), entry_of(std::string(10'000, 'x')), {}, Duration{0}, bytes_max);
    ASSERT_NE(hot.find(id_of(0)), nullptr);
    hot.put(id_of(3), entry_of(std::string(10'000, 'x')), {}, Duration{0}, bytes_max);
    EXPECT_NE(hot.find(id_of(0)), nullptr);
    EXPECT_EQ(hot.find(id_of(1)), nullptr);
    EXPECT_LE(hot.bytes(), bytes_max);
}

TEST(HotTier, CountsTheRetentionFromWhenItWasSettled) {
    HotTier hot;
    Retention retention;
    retention.response = std::chrono::seconds{10};
    hot.put(id_of(1), entry_of("one"), retention, std::chrono::seconds{10}, 1 << 20);
    EXPECT_EQ(hot.find(id_of(1)), nullptr);
    hot.put(id_of(1), entry_of("one"), retention, std::chrono::seconds{9}, 1 << 20);
    EXPECT_NE(hot.find(id_of(1)), nullptr);
}

TEST(HotTier, ForgetsWhenTheRetentionEnds) {
    HotTier hot;
    Retention retention;
    retention.response = std::chrono::microseconds{1};
    hot.put(id_of(1), entry_of("one"), retention, Duration{0}, 1 << 20);
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
    EXPECT_EQ(hot.find(id_of(1)), nullptr);
    EXPECT_EQ(hot.bytes(), 0U);
}

}  // namespace
}  // namespace semel::gateway
