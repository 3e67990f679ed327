#include "cli/dead_choice.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace semel::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(DeadChoice, NumbersAreTakenOnceEachTheOldestFirst) {
    const auto choice = parse_choice({.numbers = {"17", "3", "17", "9223372036854775807"}});
    ASSERT_TRUE(choice);
    EXPECT_THAT(choice->numbers, ElementsAre(3, 17, INT64_MAX));
    EXPECT_FALSE(choice->all);
}

TEST(DeadChoice, AllAreThoseOfOneConsumer) {
    const auto choice = parse_choice({.all = true, .consumer = "orders", .reason = "no-key"});
    ASSERT_TRUE(choice && choice->all);
    EXPECT_EQ(choice->all->consumer, "orders");
    EXPECT_EQ(choice->all->reason, "no-key");
    EXPECT_EQ(choice->all->before, 0);
}

TEST(DeadChoice, WhatIsNotPlainIsRefusedAndNamed) {
    const struct {
        ChoiceWords words;
        const char* named;
    } rows[] = {
        {{}, "--all --consumer NAME"},
        {{.all = true}, "--consumer"},
        {{.numbers = {"1"}, .all = true, .consumer = "orders"}, "\"1\""},
        {{.numbers = {"1"}, .consumer = "orders"}, "--consumer: only with --all"},
        {{.numbers = {"1"}, .reason = "no-key"}, "--reason: only with --all"},
        {{.numbers = {"1", "two"}}, "\"two\""},
        {{.numbers = {"0"}}, "\"0\""},
        {{.numbers = {"-1"}}, "\"-1\""},
        {{.numbers = {"9223372036854775808"}}, "9223372036854775808"},
        {{.all = true, .consumer = ""}, "--consumer \"\""},
        {{.all = true, .consumer = "a#2"}, "a#2"},
        {{.all = true, .consumer = "orders", .reason = "bad luck"}, "bad luck"},
    };
    for (const auto& row : rows) {
        const auto choice = parse_choice(row.words);
        ASSERT_FALSE(choice) << row.named;
        EXPECT_EQ(choice.failure().code, Code::invalid) << row.named;
        EXPECT_THAT(choice.failure().message, HasSubstr(row.named));
    }
}

TEST(DeadReasons, AreAllAmongTheChoices) {
    std::string choices = "|" + std::string(reason_choices) + "|";
    for (int i = 0; i < 8; ++i) {
        const std::string reason(name(static_cast<DeadReason>(i)));
        EXPECT_THAT(choices, HasSubstr("|" + reason + "|"));
        EXPECT_TRUE(parse_reason(reason)) << reason;
    }
    EXPECT_EQ(name(static_cast<DeadReason>(8)), "unknown") << "a new reason has to be among the choices";
}

}  // namespace
}  // namespace semel::cli
