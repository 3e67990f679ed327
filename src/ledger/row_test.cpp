#include "ledger/row.hpp"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "base/bytes.hpp"

namespace semel {
namespace {

using namespace std::chrono_literals;

/// A record with every field away from its default.
Record full_record() {
    const Operation operation{Scope::parse("acme/payments#2").value(),
                              Key::parse("8e03978e-40d5-43e8-bc93-6894a57f9324").value()};
    Record r;
    r.id = operation.id();
    r.operation = operation;
    r.key_time = time_from_micros(1'700'000'000'000'000);
    r.fingerprint = {first_half(sha256("body")), 3};
    r.correlation = "order-17";
    r.state = State::unknown;
    r.doubt = true;
    r.touched = true;
    r.token = Token{4711};
    r.attempt = {first_half(sha256("attempt"))};
    r.owner = Epoch{12};
    r.lease_until = time_from_micros(1'700'000'030'000'000);
    r.policy = {.on_unknown = OnUnknown::retry,
                .dedup_window = 24h,
                .lease = 5s,
                .effect_deadline = 7s,
                .retention = {.identity = 48h, .response = 1h}};
    r.created = time_from_micros(1'700'000'000'000'001);
    r.tries = 3;
    r.unknown_since = time_from_micros(1'700'000'030'000'001);
    r.resolved_by = "ann";
    r.resolved_why = "settlement file";
    r.history = {{Transition::claimed, time_from_micros(1'700'000'000'000'001), Token{4710}},
                 {Transition::lease_lost, time_from_micros(1'700'000'030'000'001), Token{4711}}};
    r.checkpoints = {{"reserve", std::string("\0\xff", 2)}, {"charge", ""}};
    r.request = std::string("asked\0\xff", 7);
    return r;
}

Record settled_record() {
    Record r = full_record();
    r.request.clear();
    r.state = State::settled;
    r.outcome = {201, std::string("body\0with\xff", 10), true};
    r.settled_at = time_from_micros(1'700'000'031'000'000);
    return r;
}

Record tombstone() {
    Record r;
    r.id = full_record().id;
    r.fingerprint = full_record().fingerprint;
    r.state = State::settled;
    r.token = Token{123'456'789};
    r.outcome = Outcome::tombstone(201);
    r.settled_at = time_from_micros(1'700'000'031'000'000);
    return r;
}

TEST(Row, KeepsEveryFieldOfARecord) {
    for (const Record& record : {full_record(), settled_record(), tombstone(), Record{}}) {
        const auto back = from_row(to_row(record));
        ASSERT_TRUE(back) << back.failure().message;
        EXPECT_EQ(*back, record);
    }
}

TEST(Row, AnyFlippedBitIsCorrupt) {
    for (const Record& record : {full_record(), settled_record(), tombstone()}) {
        const Row whole = to_row(record);
        const auto flip = [](std::string& bytes, std::size_t bit) {
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
        };
        const auto expect_corrupt = [&](const Row& row, const char* what, std::size_t at) {
            const auto read = from_row(row);
            ASSERT_FALSE(read) << what << " bit " << at;
            EXPECT_EQ(read.failure().code, Code::corrupt);
        };
        for (std::size_t bit = 0; bit < whole.record.size() * 8; ++bit) {
            Row row = whole;
            flip(row.record, bit);
            expect_corrupt(row, "record", bit);
        }
        for (std::size_t bit = 0; whole.outcome && bit < whole.outcome->size() * 8; ++bit) {
            Row row = whole;
            flip(*row.outcome, bit);
            expect_corrupt(row, "outcome", bit);
        }
        for (std::size_t bit = 0; whole.scope && bit < whole.scope->size() * 8; ++bit) {
            Row row = whole;
            flip(*row.scope, bit);
            expect_corrupt(row, "scope", bit);
        }
        for (std::size_t bit = 0; whole.key && bit < whole.key->size() * 8; ++bit) {
            Row row = whole;
            flip(*row.key, bit);
            expect_corrupt(row, "key", bit);
        }
        for (int bit = 0; bit < 64; ++bit) {
            Row row = whole;
            row.token.value ^= 1ULL << bit;
            expect_corrupt(row, "token", static_cast<std::size_t>(bit));
            row = whole;
            row.due = row.due.value_or(-1) ^ static_cast<std::int64_t>(1ULL << bit);
            expect_corrupt(row, "due", static_cast<std::size_t>(bit));
        }
        for (int state = 0; state < 256; ++state) {
            Row row = whole;
            row.state = static_cast<State>(state);
            if (row.state != whole.state) expect_corrupt(row, "state", static_cast<std::size_t>(state));
        }
    }
}

TEST(Row, ARowMovedToAnotherOperationIsCorrupt) {
    Row row = to_row(settled_record());
    row.id.bytes[3] ^= 1;
    EXPECT_FALSE(from_row(row));
    row = to_row(settled_record());
    row.outcome.reset();
    EXPECT_FALSE(from_row(row));
    row = to_row(settled_record());
    row.key.reset();
    EXPECT_FALSE(from_row(row));
}

TEST(Row, AnyCutIsCorrupt) {
    const Row whole = to_row(full_record());
    for (std::size_t size = 0; size < whole.record.size(); ++size) {
        Row row = whole;
        row.record.resize(size);
        EXPECT_FALSE(from_row(row)) << size;
    }
}

TEST(Row, GarbageWithARightChecksumIsCorruptAndNeverACrash) {
    rc::check([](const std::string& garbage) {
        Row row = to_row(tombstone());
        row.record = row.record.substr(0, row.record.size() - 8) + garbage;
        row.record += checksum(row, row.record);
        if (const auto read = from_row(row)) RC_ASSERT(to_row(*read).record.size() <= row.record.size() + 64);
    });
}

TEST(Row, ATombstoneIsShort) { EXPECT_LE(to_row(tombstone()).record.size(), 45U); }

TEST(Row, ARecordWithoutARequestIsWrittenAsBefore) {
    Record record = full_record();
    record.request.clear();
    const std::size_t without = to_row(record).record.size();
    record.request = "r";
    EXPECT_EQ(to_row(record).record.size(), without + 3);
}

TEST(Row, AFieldThatIsNotKnownIsNotGuessedAt) {
    Row row = to_row(tombstone());
    std::string head = row.record.substr(0, row.record.size() - 8) + std::string("\x16\x01x", 3);
    row.record = head + checksum(row, head);
    EXPECT_FALSE(from_row(row));
}

TEST(Row, ANewerFormatIsNotGuessedAt) {
    Row row = to_row(tombstone());
    std::string head = row.record.substr(0, row.record.size() - 8);
    head[0] = 2;
    row.record = head + checksum(row, head);
    const auto read = from_row(row);
    ASSERT_FALSE(read);
    EXPECT_NE(read.failure().message.find("newer"), std::string::npos);
}

TEST(Row, TheFormatIsFixedForEver) {
    // docs/formats/record.md shows this vector.
    const Row row = to_row(tombstone());
    EXPECT_EQ(to_hex(row.record), "010003230d8358dc8e8890b4c58deeb62912ee1202920313088097ba9f838985062744d6421c32be25");
}

}  // namespace
}  // namespace semel
