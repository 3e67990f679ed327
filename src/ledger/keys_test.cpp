#include "semel/keys.hpp"

#include <gtest/gtest.h>

#include <set>

#include "ledger/mint.hpp"

namespace semel {
namespace {

Operation operation(std::string tenant, std::string name, std::uint32_t generation, std::string key) {
    return {Scope::make(std::move(tenant), std::move(name), generation).value(), Key::parse(std::move(key)).value()};
}

// The version digit and whether the variant bits are those of RFC 9562.
char version_of(const Key& key) {
    EXPECT_TRUE(Key::parse(key.text(), KeyFormat::uuid).ok()) << key.text();
    EXPECT_NE(std::string_view("89ab").find(key.text()[19]), std::string_view::npos) << key.text();
    return key.text()[14];
}

TEST(Mint, GivesADifferentKeyEachTime) {
    std::set<std::string> keys;
    std::set<Attempt> attempts;
    const auto at = std::chrono::system_clock::now();
    for (int i = 0; i < 1000; ++i) {
        keys.insert(mint_uuid4().text());
        keys.insert(mint_uuid7(at).text());
        attempts.insert(mint_attempt());
    }
    EXPECT_EQ(keys.size(), 2000u);
    EXPECT_EQ(attempts.size(), 1000u);
}

TEST(Mint, SetsVersionAndVariant) {
    for (int i = 0; i < 100; ++i) {
        EXPECT_EQ(version_of(mint_uuid4()), '4');
        EXPECT_EQ(version_of(mint_uuid7()), '7');
        EXPECT_TRUE(Key::parse(mint_uuid7().text(), KeyFormat::uuidv7).ok());
    }
}

TEST(Mint, PutsItsTimeIntoVersion7InMilliseconds) {
    SeededRandom random(1);
    const struct {
        std::int64_t at, in_key;
    } rows[] = {{0, 0},
                {999, 0},
                {1'700'000'000'123'456, 1'700'000'000'123'000},
                {4'102'444'800'000'000, 4'102'444'800'000'000},
                {-5, 0}};
    for (const auto& row : rows)
        EXPECT_EQ(mint_uuid7(random, time_from_micros(row.at)).time(), time_from_micros(row.in_key));
    const auto at = std::chrono::system_clock::time_point{std::chrono::milliseconds{1'700'000'000'123}};
    EXPECT_TRUE(mint_uuid7(at).text().starts_with("018bcfe5-687b-7"));
}

TEST(Mint, LaterVersion7KeysSortLater) {
    SeededRandom random(2);
    const Key earlier = mint_uuid7(random, time_from_micros(1'700'000'000'123'000));
    const Key later = mint_uuid7(random, time_from_micros(1'700'000'000'124'000));
    EXPECT_LT(earlier, later);
}

TEST(Mint, TheSameSeedGivesTheSameIds) {
    SeededRandom one(3);
    SeededRandom same(3);
    EXPECT_EQ(mint_uuid4(one), mint_uuid4(same));
    EXPECT_EQ(mint_attempt(one), mint_attempt(same));
}

// docs/formats/keys.md holds the same vectors.
TEST(Derive, GivesTheSameKeyForEver) {
    const struct {
        Operation parent;
        std::string_view step;
        std::uint32_t business_attempt;
        std::string_view key;
    } rows[] = {{operation("acme", "orders", 0, "k1"), "charge", 1, "11c03971-cac8-8c88-9b71-75085fce03fd"},
                {operation("acme", "orders", 0, "k1"), "charge", 2, "c51f4d90-7210-8ac2-87ea-ab0ed6ed9fc8"},
                {operation("", "orders", 7, "k1"), "ship → me", 1, "bcc90b7e-ded1-8d29-ac4f-5cffe7660157"},
                {operation("acme", "orders", 0, "k1"), "", 1, "df585041-8b3f-8970-af1d-259d963db298"}};
    for (const auto& row : rows) {
        const Key key = derive(row.parent, row.step, row.business_attempt);
        EXPECT_EQ(key.text(), row.key);
        EXPECT_EQ(version_of(key), '8');
    }
    EXPECT_EQ(derive(rows[0].parent, "charge").text(), rows[0].key);
}

TEST(Derive, EveryPartOfItsInputCounts) {
    std::set<Key> keys;
    keys.insert(derive(operation("a", "bc", 0, "d"), "e"));
    keys.insert(derive(operation("ab", "c", 0, "d"), "e"));
    keys.insert(derive(operation("a", "bc", 1, "d"), "e"));
    keys.insert(derive(operation("a", "bc", 0, "de"), ""));
    keys.insert(derive(operation("a", "bc", 0, "d"), "f"));
    keys.insert(derive(operation("a", "bc", 0, "d"), "e", 2));
    EXPECT_EQ(keys.size(), 6u);
}

}  // namespace
}  // namespace semel
