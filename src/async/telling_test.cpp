#include "async/telling.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace semel {
namespace {

TEST(Telling, WhatIsDoneOnceForAllComesAfterTheLastWasTold) {
    std::string said;
    {
        const Telling telling;
        said += "a";
        Telling::when_over([&] { said += "!"; });
        said += "b";
        Telling::when_over([&] { said += "?"; });
        said += "c";
    }
    EXPECT_EQ(said, "abc!?");
}

TEST(Telling, WhereNobodyIsToldItIsDoneAtOnce) {
    std::string said;
    Telling::when_over([&] { said += "!"; });
    said += "a";
    EXPECT_EQ(said, "!a");
}

TEST(Telling, OfAnotherThreadKeepsNobodyWaiting) {
    const Telling telling;
    bool done = false;
    std::thread([&] { Telling::when_over([&] { done = true; }); }).join();
    EXPECT_TRUE(done);
}

}  // namespace
}  // namespace semel
