#include "base/random.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <set>
#include <thread>
#include <vector>

namespace semel {
namespace {

using Id = std::array<unsigned char, 16>;

Id draw(Random& random) {
    Id id{};
    random.fill(id);
    return id;
}

TEST(SystemRandom, NeverRepeatsAcrossThreadsAndRefills) {
    constexpr std::size_t ids_per_thread = 2000;
    std::array<std::vector<Id>, 4> drawn;
    {
        std::vector<std::jthread> threads;
        for (auto& ids : drawn)
            threads.emplace_back([&ids] {
                SystemRandom random;
                for (std::size_t i = 0; i < ids_per_thread; ++i) ids.push_back(draw(random));
            });
    }
    std::set<Id> all;
    for (const auto& ids : drawn) all.insert(ids.begin(), ids.end());
    EXPECT_EQ(all.size(), drawn.size() * ids_per_thread);
}

TEST(SystemRandom, FillsEveryLength) {
    SystemRandom random;
    for (const std::size_t size : {0, 1, 15, 63, 64, 65, 511, 512, 513, 5000}) {
        // A byte that stays zero in all of 16 fills was not filled (chance 2^-128 each).
        std::vector<unsigned char> seen(size, 0);
        for (int round = 0; round < 16; ++round) {
            std::vector<unsigned char> bytes(size, 0);
            random.fill(bytes);
            for (std::size_t i = 0; i < size; ++i) seen[i] |= bytes[i];
        }
        for (const unsigned char byte : seen) EXPECT_NE(byte, 0) << size;
    }
}

TEST(SystemRandom, AForkedChildDoesNotGetItsParentsBytes) {
    SystemRandom random;
    draw(random);  // the parent's buffer is filled and partly used
    std::array<int, 2> pipe_ends{};
    ASSERT_EQ(pipe(pipe_ends.data()), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const Id id = draw(random);
        _exit(write(pipe_ends[1], id.data(), id.size()) == static_cast<ssize_t>(id.size()) ? 0 : 1);
    }
    Id of_child{};
    ASSERT_EQ(read(pipe_ends[0], of_child.data(), of_child.size()), static_cast<ssize_t>(of_child.size()));
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    for (int i = 0; i < 64; ++i) EXPECT_NE(draw(random), of_child);
}

TEST(SeededRandom, SameSeedSameBytesForEver) {
    SeededRandom random(1);
    EXPECT_EQ(random.bits(), 2469588189546311528u);  // std::mt19937_64(1) is fixed by the C++ standard
    SeededRandom one(42);
    SeededRandom same(42);
    SeededRandom other(43);
    const Id id = draw(one);
    EXPECT_EQ(id, draw(same));
    EXPECT_NE(id, draw(other));
}

TEST(Random, BelowIsInsideItsBoundAndReachesAllOfIt) {
    SeededRandom random(7);
    for (const std::uint64_t bound : {1u, 2u, 3u, 10u}) {
        std::set<std::uint64_t> seen;
        for (int i = 0; i < 1000; ++i) {
            const std::uint64_t value = random.below(bound);
            ASSERT_LT(value, bound);
            seen.insert(value);
        }
        EXPECT_EQ(seen.size(), bound);
    }
    EXPECT_LT(random.below(~0ull), ~0ull);
}

TEST(Random, BelowIsFairForABoundThatDoesNotDivideTheRange) {
    // Without drawing again, half of the draws would fall into the lowest third.
    SeededRandom random(11);
    const std::uint64_t third = 1ull << 62;
    int low = 0;
    for (int i = 0; i < 30000; ++i) low += random.below(3 * third) < third ? 1 : 0;
    EXPECT_NEAR(low, 10000, 500);
}

}  // namespace
}  // namespace semel
