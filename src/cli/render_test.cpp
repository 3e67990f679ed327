// What people and programs are shown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "cli/show_record.hpp"
#include "cli/table.hpp"

namespace semel::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Json, IsValidWhateverTheBytesAre) {
    EXPECT_EQ(json_text("plain"), R"("plain")");
    EXPECT_EQ(json_text("a\"b\\c\n\x7f"), "\"a\\\"b\\\\c\\u000a\\u007f\"");
    EXPECT_EQ(json_text("Grüße €😀"), "\"Grüße €😀\"");
    EXPECT_EQ(json_text("\xff|\xc3|\xc0\x80|\xed\xa0\x80|\xf4\x90\x80\x80"),
              "\"\\ufffd|\\ufffd|\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd|\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

TEST(Json, SeparatesMembersAndElements) {
    JsonWriter json;
    json.begin_object()
        .member("a", 1)
        .name("b")
        .begin_array()
        .value("x")
        .null()
        .begin_object()
        .end_object()
        .end_array();
    json.member("c", std::optional<int>{}).member("d", true).end_object();
    EXPECT_EQ(json.text(), R"({"a":1,"b":["x",null,{}],"c":null,"d":true})");
}

TEST(Table, AlignsColumnsByWhatTheScreenShows) {
    Table table({{"NAME"}, {"N", Table::Align::right}, {"REST"}});
    table.add({"é", "7", "x"});
    table.add({"long name", "1234", ""});
    EXPECT_EQ(table.text(),
              "NAME          N  REST\n"
              "é             7  x\n"
              "long name  1234\n");
}

TEST(Table, NeverWritesControlCharacters) {
    Table table({{"K"}});
    table.add({"a\x1b[2Jb\r"});
    EXPECT_EQ(table.text(), "K\na\\x1b[2Jb\\x0d\n");
}

TEST(Age, HasAtMostTwoUnits) {
    using namespace std::chrono_literals;
    EXPECT_EQ(age_text(0s), "0s");
    EXPECT_EQ(age_text(999ms), "0s");
    EXPECT_EQ(age_text(59s), "59s");
    EXPECT_EQ(age_text(185s), "3m05s");
    EXPECT_EQ(age_text(7800s), "2h10m");
    EXPECT_EQ(age_text(219h), "9d03h");
    EXPECT_EQ(age_text(-5s), "in 5s");
}

TEST(ShellWord, IsReadBackByAShell) {
    EXPECT_EQ(shell_word("acme/payments"), "acme/payments");
    EXPECT_EQ(shell_word("orders#2"), "'orders#2'");
    EXPECT_EQ(shell_word("it's"), R"('it'\''s')");
    EXPECT_EQ(shell_word(""), "''");
}

const TimePoint now = time_from_micros(1'700'000'000'000'000);

Record unknown_record() {
    Record record;
    record.operation = Operation{Scope::parse("acme/payments").value(), Key::parse("a key").value()};
    record.id = record.operation->id();
    record.state = State::unknown;
    record.doubt = true;
    record.token = {7};
    record.created = now - std::chrono::minutes{5};
    record.lease_until = now - std::chrono::minutes{4};
    record.unknown_since = record.lease_until;
    record.checkpoints = {{"reserved", "secret value"}};
    record.request = "card 4242 again";
    record.history = {{Transition::claimed, record.created, {7}}, {Transition::lease_lost, record.lease_until, {7}}};
    return record;
}

TEST(RecordDetail, OfAnUnknownOutcomeSaysWhatCanBeDone) {
    const std::string text = record_detail(unknown_record(), now, "sqlite:a b.db");
    EXPECT_THAT(text, HasSubstr("unknown since 2023-11-14T22:09:20.000Z (4m00s ago)"));
    EXPECT_THAT(
        text, HasSubstr("semel ops resolve --store 'sqlite:a b.db' acme/payments 'a key' --token 7 --did-not-happen"));
    EXPECT_THAT(text, HasSubstr("reserved, 12 bytes"));
    EXPECT_THAT(text, Not(HasSubstr("secret value")));
    EXPECT_THAT(text, HasSubstr("kept, 15 bytes"));
    EXPECT_THAT(text, Not(HasSubstr("4242")));
}

TEST(RecordDetail, SaysFromWhenOnADecisionIsAccepted) {
    Record record = unknown_record();
    record.lease_until = now;
    EXPECT_THAT(record_detail(record, now, "s"), HasSubstr("then say so, from 2023-11-14T22:13:50.000Z on:"));
}

TEST(RecordDetail, NeverShowsABody) {
    Record record = unknown_record();
    record.state = State::settled;
    record.unknown_since.reset();
    record.settled_at = now;
    record.outcome = {201, "card 4242", true};
    const std::string text = record_detail(record, now, "s");
    EXPECT_THAT(text, HasSubstr("status 201, 9 bytes"));
    EXPECT_THAT(text, Not(HasSubstr("4242")));
    JsonWriter json;
    write_record(json, record, now);
    EXPECT_THAT(json.text(), HasSubstr(R"("outcome":{"status":201,"kept":true,"filled":true,"body_bytes":9})"));
    EXPECT_THAT(json.text(), Not(HasSubstr("4242")));
}

TEST(RecordTable, ShowsATombstoneByItsIdAndALeaseThatIsOver) {
    Record running = unknown_record();
    running.state = State::running;
    Record tombstone;
    tombstone.state = State::settled;
    tombstone.settled_at = now;
    tombstone.outcome = Outcome::tombstone(201);
    const std::string text = record_table({running, tombstone}, now);
    EXPECT_THAT(text, HasSubstr("running, lease over"));
    EXPECT_THAT(text, HasSubstr("00000000000000000000000000000000"));
}

}  // namespace
}  // namespace semel::cli
