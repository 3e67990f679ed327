// kill -9 before, between and after the steps of a message: every step is done once, and the next run has what the steps
// before the crash returned.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>

#include "broker.hpp"
#include "child.hpp"
#include "database.hpp"
#include "semel/keys.hpp"

namespace semel::test {
namespace {

using namespace std::chrono_literals;

class StepsCrash : public testing::TestWithParam<std::string_view> {};

Message order(const std::string& id) {
    Message message;
    message.content_type = "application/json";
    message.headers = {{"ce-specversion", "1.0"}, {"ce-id", id}, {"ce-source", "/shop"}, {"ce-type", "order"}};
    message.body = "{}";
    return message;
}

TEST_P(StepsCrash, EveryStepIsDoneOnceWhereverTheConsumerDies) {
    const auto database = make_database(GetParam());
    database->run("create table done (id text not null, step text not null, trail text not null)");
    const auto broker = make_broker("redis");
    const std::string topic = "steps-" + mint_uuid4().text();
    broker->create(topic, 1);
    const std::vector<std::vector<std::string>> deaths = {
        {"claimed", "1"}, {"step", "1"},    {"step", "2"},      {"step", "3"},
        {"step", "4"},    {"handled", "1"}, {"committed", "1"},
    };
    int number = 0;
    for (const auto& death : deaths) {
        const std::string id = fmt::format("order-{}", ++number);
        const auto deadline = std::chrono::steady_clock::now() + 20s;
        const auto waited = [&](std::string_view what) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << what << " after " << death[0] << " " << death[1];
            std::this_thread::sleep_for(5ms);
        };
        Child consumer({SEMEL_STEPS_CONSUMER, topic, database->url()});
        consumer.start(death);
        const Message message = order(id);
        broker->publish(topic, std::span(&message, 1));
        std::optional<int> status;
        while (!(status = consumer.ended())) waited("death");
        ASSERT_TRUE(was_killed(*status));
        consumer.start();
        const auto is_settled = [&] {
            return database->value(fmt::format("select count(*) from semel.operation where state = 3 and "
                                               "scope = 'shipping' and key = '/shop {}'",
                                               id)) == "1";
        };
        while (!is_settled()) waited("settled");
        consumer.stop();
        EXPECT_EQ(database->value(fmt::format("select count(*) from done where id = '{}'", id)), "4");
        EXPECT_EQ(database->value(fmt::format("select trail from done where id = '{}' and step = 'ship'", id)),
                  "reserve;charge;pack;");
    }
    EXPECT_EQ(database->value("select count(*) from semel.dead_letter"), "0");
    broker->remove(topic);
}

INSTANTIATE_TEST_SUITE_P(Databases, StepsCrash, testing::ValuesIn(database_names),
                         [](const auto& database) { return std::string(database.param); });

}  // namespace
}  // namespace semel::test
