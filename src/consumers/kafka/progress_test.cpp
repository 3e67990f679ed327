#include "consumers/kafka/progress.hpp"

#include <gtest/gtest.h>

namespace semel::kafka {
namespace {

TEST(KafkaProgress, PositionIsThatOfTheLowestUnfinishedMessage) {
    Progress progress;
    EXPECT_EQ(progress.position(), std::nullopt);
    for (const std::int64_t offset : {10, 11, 13, 14}) EXPECT_TRUE(progress.begin(offset));  // 12 ended a transaction
    EXPECT_EQ(progress.position(), 10);
    const struct {
        std::int64_t done;
        std::int64_t position;
    } rows[] = {{13, 10}, {11, 10}, {10, 14}, {10, 14}, {12, 14}, {99, 14}, {14, 15}};
    for (const auto& row : rows) {
        progress.finish(row.done);
        EXPECT_EQ(progress.position(), row.position) << "after " << row.done;
    }
    EXPECT_TRUE(progress.begin(20));
    EXPECT_EQ(progress.position(), 20);
}

TEST(KafkaProgress, OffsetsThatGoBackAreAnotherLog) {
    Progress progress;
    EXPECT_TRUE(progress.begin(5));
    EXPECT_FALSE(progress.begin(5));
    EXPECT_FALSE(progress.begin(0));
    EXPECT_EQ(progress.position(), 5);
}

}  // namespace
}  // namespace semel::kafka
