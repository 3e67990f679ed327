#include "base/duration.hpp"

#include <gtest/gtest.h>

#include "base/random.hpp"

namespace semel {
namespace {

using namespace std::chrono_literals;

TEST(Duration, IsReadWithItsUnit) {
    const struct {
        std::string_view text;
        Duration duration;
    } rows[] = {{"0s", 0us},
                {"1us", 1us},
                {"250ms", 250ms},
                {"30s", 30s},
                {"5m", 5min},
                {"24h", 24h},
                {"7d", std::chrono::days{7}},
                {"007s", 7s},
                {"36500d", std::chrono::days{36500}},
                {"9223372036854775807us", Duration::max()}};
    for (const auto& row : rows) {
        const auto read = parse_duration(row.text);
        ASSERT_TRUE(read.ok()) << row.text << ": " << read.failure().message;
        EXPECT_EQ(*read, row.duration) << row.text;
    }
}

TEST(Duration, IsRefusedWithTheReason) {
    const struct {
        std::string_view text;
        std::string_view why;
    } rows[] = {{"", "whole number and a unit"},
                {"s", "whole number and a unit"},
                {"-5s", "not negative"},
                {"+5s", "whole number and a unit"},
                {" 5s", "whole number and a unit"},
                {"5", "unit is missing"},
                {"5 s", "unknown unit \" s\""},
                {"5S", "unknown unit \"S\""},
                {"5s ", "unknown unit"},
                {"1.5h", "unknown unit \".5h\""},
                {"1h30m", "unknown unit"},
                {"5w", "unknown unit"},
                {"permanent", "whole number and a unit"},
                {"9223372036854775808us", "too long"},
                {"99999999999999999999s", "too long"},
                {"106751992d", "too long"}};
    for (const auto& row : rows) {
        const auto read = parse_duration(row.text);
        ASSERT_FALSE(read.ok()) << row.text;
        EXPECT_EQ(read.failure().code, Code::invalid);
        EXPECT_NE(read.failure().message.find(row.why), std::string::npos) << read.failure().message;
    }
    EXPECT_EQ(parse_duration("5").failure().message,
              "duration \"5\": the unit is missing; write a whole number and a unit (us, ms, s, m, h, d), as in 250ms, "
              "30s or 24h");
}

TEST(Duration, IsWrittenInTheLargestUnitThatDividesIt) {
    EXPECT_EQ(to_text(Duration{0}), "0s");
    EXPECT_EQ(to_text(Duration{1}), "1us");
    EXPECT_EQ(to_text(Duration{1500}), "1500us");
    EXPECT_EQ(to_text(Duration{1500ms}), "1500ms");
    EXPECT_EQ(to_text(Duration{90s}), "90s");
    EXPECT_EQ(to_text(Duration{120s}), "2m");
    EXPECT_EQ(to_text(Duration{24h}), "1d");
    EXPECT_EQ(to_text(Duration{25h}), "25h");
    EXPECT_EQ(to_text(Duration{-5s}), "-5s");
    EXPECT_EQ(to_text(Duration::max()), "9223372036854775807us");
    EXPECT_EQ(to_text(Duration::min()), "-9223372036854775808us");
}

TEST(Duration, ReadsBackWhatWasWritten) {
    SeededRandom random(1);
    for (int i = 0; i < 2000; ++i) {
        const Duration duration{static_cast<std::int64_t>(random.bits() >> (1 + random.below(63)))};
        EXPECT_EQ(*parse_duration(to_text(duration)), duration);
    }
}

TEST(TimePoint, IsWrittenAsIso8601InUtc) {
    const struct {
        std::int64_t micros;
        std::string_view text;
    } rows[] = {{0, "1970-01-01T00:00:00.000Z"},
                {1'700'000'000'123'999, "2023-11-14T22:13:20.123Z"},
                {-1, "1969-12-31T23:59:59.999Z"},
                {951'782'400'000'000, "2000-02-29T00:00:00.000Z"},
                {951'868'800'000'000, "2000-03-01T00:00:00.000Z"},
                {4'107'542'399'999'000, "2100-02-28T23:59:59.999Z"},
                {4'107'542'400'000'000, "2100-03-01T00:00:00.000Z"},
                {253'402'300'799'999'999, "9999-12-31T23:59:59.999Z"},
                {253'402'300'800'000'000, "+10000-01-01T00:00:00.000Z"},
                {-62'167'219'200'000'000, "0000-01-01T00:00:00.000Z"},
                {-62'167'219'200'000'001, "-0001-12-31T23:59:59.999Z"},
                {INT64_MAX - 1, "+294247-01-10T04:00:54.775Z"},
                {INT64_MAX, "never"},
                {INT64_MIN, "-290308-12-21T19:59:05.224Z"}};
    for (const auto& row : rows) EXPECT_EQ(to_text(time_from_micros(row.micros)), row.text);
}

TEST(TimePoint, HasTheDateThatTheStandardLibraryComputes) {
    SeededRandom random(2);
    for (int i = 0; i < 5000; ++i) {
        const auto day = std::chrono::days{static_cast<int>(random.below(3'500'000)) - 700'000};
        const std::chrono::year_month_day date{std::chrono::sys_days{day}};
        const std::string text = to_text(TimePoint{day});
        char expected[32];
        std::snprintf(expected, sizeof expected, "%04d-%02u-%02uT", static_cast<int>(date.year()),
                      static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
        EXPECT_TRUE(text.starts_with(expected)) << text << " is not " << expected;
    }
}

}  // namespace
}  // namespace semel
