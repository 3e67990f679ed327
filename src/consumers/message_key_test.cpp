#include "semel/message_key.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace semel {
namespace {

using testing::HasSubstr;

const MessageKeyOptions by_producer{
    .source = KeySource::producer, .producer_header = "producer", .sequence_header = "sequence"};

Event event(std::string source, std::string id) { return {.id = std::move(id), .source = std::move(source)}; }

Message from_producer(std::string producer, std::string sequence) {
    Message message;
    message.headers = {{"producer", std::move(producer)}, {"sequence", std::move(sequence)}};
    return message;
}

Message at(std::string position) {
    Message message;
    message.position = std::move(position);
    return message;
}

std::string envelope_key(std::string source, std::string id) {
    return key_of({}, event(std::move(source), std::move(id)), {}).value().text();
}

void expect_refused(const Message& message, const Event& event, const MessageKeyOptions& options,
                    std::string_view why) {
    const auto key = key_of(message, event, options);
    ASSERT_FALSE(key.ok()) << key->text();
    EXPECT_EQ(key.failure().code, Code::invalid);
    EXPECT_THAT(key.failure().message, HasSubstr(std::string(why)));
}

/// Every text of these pieces, up to `length_max` of them.
std::vector<std::string> texts_of(const std::vector<std::string>& pieces, std::size_t length_max) {
    std::vector<std::string> all{""};
    for (std::size_t begin = 0, length = 0; length < length_max; ++length) {
        const std::size_t end = all.size();
        for (; begin < end; ++begin)
            for (const std::string& piece : pieces) all.push_back(all[begin] + piece);
    }
    return all;
}

// docs/formats/keys.md holds the same vectors.
TEST(MessageKey, OfAnEventIsItsSourceAndId) {
    const struct {
        std::string source, id, key;
    } rows[] = {
        {"/shop/eu", "8e03978e-40d5-43e8-bc93-6894a57f9324", "/shop/eu 8e03978e-40d5-43e8-bc93-6894a57f9324"},
        {"", "42", "- 42"},
        {"-", "42", "\\- 42"},
        {"a b", "c d", "a\\sb c d"},
        {"a\\b", "c\\d", "a\\\\b c\\d"},
        {"/shop", "\xc3\xa9", "sha256:59530631684a8fa26448822b8502b91dda332d69f5da2516d7de9170bda4c7f8"},
    };
    for (const auto& row : rows) EXPECT_EQ(envelope_key(row.source, row.id), row.key);
}

TEST(MessageKey, IsAHashWhereSourceAndIdDoNotFit) {
    const std::string longest = envelope_key("/shop", std::string(249, 'i'));
    EXPECT_EQ(longest.size(), Key::bytes_max);
    EXPECT_TRUE(longest.starts_with("/shop "));
    for (const auto& [source, id] : {std::pair{std::string("/shop"), std::string(250, 'i')},
                                     {std::string(1000, 's'), std::string("i")},
                                     {std::string(127, ' '), std::string("i")},
                                     {std::string("/shop"), std::string("\x7f")},
                                     {std::string("/sh\xc3\xb6p"), std::string("i")}}) {
        const std::string key = envelope_key(source, id);
        EXPECT_TRUE(key.starts_with("sha256:")) << key;
        EXPECT_EQ(key.size(), 7u + 64u);
    }
}

TEST(MessageKey, NoTwoEventsHaveTheSame) {
    std::map<std::string, std::pair<std::string, std::string>> keys;
    const auto add = [&](const std::string& source, const std::string& id) {
        const auto [at, added] = keys.emplace(envelope_key(source, id), std::pair{source, id});
        EXPECT_TRUE(added) << at->first << " is the key of (" << source << ", " << id << ") and (" << at->second.first
                           << ", " << at->second.second << ")";
    };
    const auto texts = texts_of({" ", "\\", "-", "s", "sha256:", "\xc3\xa9"}, 3);
    for (const std::string& source : texts)
        for (const std::string& id : texts)
            if (!id.empty()) add(source, id);
    // Around the longest that is written out, and what is longer.
    for (std::size_t size = 0; size < 300; ++size) {
        add(std::string(size, 'a'), std::string(255 - std::min<std::size_t>(size, 254), 'a'));
        add(std::string(size, ' '), "xx");
    }
    EXPECT_EQ(keys.size(), texts.size() * (texts.size() - 1) + 600);
}

TEST(MessageKey, OfAProducerIsItsIdAndSequence) {
    EXPECT_EQ(key_of(from_producer("billing-7", "1042"), {}, by_producer)->text(), "producer:billing-7#1042");
    EXPECT_EQ(key_of(from_producer("a b#1", "2"), {}, by_producer)->text(), "producer:a\\sb#1#2");
    EXPECT_EQ(key_of(from_producer("\xff", "1"), {}, by_producer)->text().substr(0, 7), "sha256:");
    std::map<std::string, std::string> keys;
    for (const std::string& producer : texts_of({" ", "\\", "-", "#", "1", "s", "\xff"}, 3)) {
        for (const std::string& sequence : texts_of({"0", "1"}, 3)) {
            if (producer.empty() || sequence.empty()) continue;
            const std::string key = key_of(from_producer(producer, sequence), {}, by_producer)->text();
            EXPECT_TRUE(keys.emplace(key, producer).second) << producer << ' ' << sequence;
        }
    }
}

TEST(MessageKey, OfAPositionIsThePosition) {
    const MessageKeyOptions options{.source = KeySource::position};
    EXPECT_EQ(key_of(at("orders/3@1042"), {}, options)->text(), "position:orders/3@1042");
    EXPECT_EQ(key_of(at("my orders@1-0"), {}, options)->text(), "position:my\\sorders@1-0");
    EXPECT_EQ(key_of(at(std::string(300, 'o') + "@1"), {}, options)->text().substr(0, 7), "sha256:");
}

TEST(MessageKey, OfContentIsAHashOfTypeAndData) {
    const MessageKeyOptions options{.source = KeySource::content};
    const auto key = [&](std::string type, std::string data) {
        return key_of({}, {.id = "e1", .type = std::move(type), .data = std::move(data)}, options)->text();
    };
    EXPECT_EQ(key("paid", R"({"total":7})"),
              "content:ef65e41566ce69569c785024b089dcc41ff6dbbb3cb2b9e4f81b2ee99f63643b");
    EXPECT_EQ(key("paid", "{}"), key("paid", "{}"));
    EXPECT_NE(key("paid", "{}"), key("pai", "d{}"));
    EXPECT_TRUE(key("paid", "").starts_with("content:"));
    EXPECT_EQ(key("", "").size(), 8u + 64u);
}

TEST(MessageKey, ThoseOfDifferentKindsNeverMeet) {
    const std::string text(300, 'a');
    std::map<std::string, int> keys;
    ++keys[envelope_key(text, "1")];
    ++keys[key_of(from_producer(text, "1"), {}, by_producer)->text()];
    ++keys[key_of(at(text), {}, {.source = KeySource::position})->text()];
    ++keys[key_of({}, {.type = text, .data = "1"}, {.source = KeySource::content})->text()];
    EXPECT_EQ(keys.size(), 4u);
    // What is written out by envelopes has a space in it, and nothing else has.
    for (const std::string& source : texts_of({" ", "-", ":", "producer:", "position:", "sha256:"}, 2))
        EXPECT_NE(envelope_key(source, "x").find(' '), std::string::npos);
    EXPECT_EQ(key_of(from_producer("a b c", "1"), {}, by_producer)->text().find(' '), std::string::npos);
    EXPECT_EQ(key_of(at("a b c"), {}, {.source = KeySource::position})->text().find(' '), std::string::npos);
}

TEST(MessageKey, WhatIsMissingIsNotReplaced) {
    expect_refused({}, {}, {}, "the event has no id");
    expect_refused({}, event("s", "i"), by_producer, R"(no header "producer")");
    Message message = from_producer("p", "1");
    message.headers.push_back({"sequence", "2"});
    expect_refused(message, event("s", "i"), by_producer, R"(the header "sequence" more than once)");
    expect_refused(from_producer("", "1"), event("s", "i"), by_producer, R"("producer" is empty)");
    for (const std::string_view wrong : {"x", "-1", "1.0", " 1", "123456789012345678901"})
        expect_refused(from_producer("p", std::string(wrong)), event("s", "i"), by_producer, "is no sequence number");
    const MessageKeyOptions by_position{.source = KeySource::position};
    expect_refused({}, event("s", "i"), by_position, "no position");
    message.binding = Binding::rabbitmq;
    expect_refused(message, event("s", "i"), by_position, "RabbitMQ keeps no position");
}

TEST(MessageKey, OptionsAreChecked) {
    EXPECT_TRUE(check(MessageKeyOptions{}).ok());
    EXPECT_TRUE(check(by_producer).ok());
    EXPECT_THAT(check(MessageKeyOptions{.source = KeySource::producer}).failure().message,
                HasSubstr("producer_header"));
    MessageKeyOptions half = by_producer;
    half.sequence_header.clear();
    EXPECT_THAT(check(half).failure().message, HasSubstr("sequence_header"));
    expect_refused(from_producer("p", "1"), {}, half, "sequence_header");
}

}  // namespace
}  // namespace semel
