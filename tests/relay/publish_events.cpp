// Speaks to a broker for tests that are no C++:
//
//     publish_events BROKER create TOPIC [PARTITIONS]
//     publish_events BROKER publish TOPIC < LINES      ordering key, tab, body (a CloudEvent in JSON); one message each
//     publish_events BROKER remove TOPIC
//
// The address comes from the environment that tests/servers/with-servers makes.
#include <cstdio>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#include "../consumers/broker.hpp"

namespace {

std::vector<semel::Message> read_messages() {
    std::vector<semel::Message> messages;
    for (std::string line; std::getline(std::cin, line);) {
        const auto tab = line.find('\t');
        if (tab == std::string::npos) throw std::runtime_error("a line without a tab: " + line);
        semel::Message message;
        message.ordering_key = line.substr(0, tab);
        message.content_type = "application/cloudevents+json";
        message.body = line.substr(tab + 1);
        messages.push_back(std::move(message));
    }
    return messages;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) {
        std::fputs("publish_events BROKER create|publish|remove TOPIC [PARTITIONS]\n", stderr);
        return 2;
    }
    const std::string what = argv[2];
    const std::string topic = argv[3];
    try {
        const auto broker = semel::test::make_broker(argv[1]);
        if (what == "create") {
            broker->create(topic, argc > 4 ? std::stoi(argv[4]) : 4);
        } else if (what == "publish") {
            broker->publish(topic, read_messages());
        } else if (what == "remove") {
            broker->remove(topic);
        } else {
            return 2;
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "publish_events: %s\n", error.what());
        return 1;
    }
    return 0;
}
