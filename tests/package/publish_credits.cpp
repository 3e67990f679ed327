// publish_credits BROKER FIRST LAST: makes the topic `credits` if FIRST is 1, and publishes the credits 1 to LAST, of which
// those before FIRST were published before; every third of the rest twice. Prints what each account should then have.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "../consumers/broker.hpp"

namespace {

constexpr int accounts = 7;

semel::Message credit(const std::string& broker, int number) {
    const std::string prefix = broker == "kafka" ? "ce_" : broker == "rabbitmq" ? "cloudEvents:" : "ce-";
    semel::Message message;
    message.ordering_key = "account-" + std::to_string(number % accounts);
    message.content_type = "application/json";
    message.headers = {{prefix + "specversion", "1.0"},
                       {prefix + "id", "credit-" + std::to_string(number)},
                       {prefix + "source", "/till"},
                       {prefix + "type", "credit"}};
    message.body = R"({"account": ")" + message.ordering_key + R"(", "amount": )" + std::to_string(number) + "}";
    return message;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const std::string name = argv[1];
    const int first = std::atoi(argv[2]);
    const int last = std::atoi(argv[3]);
    const auto broker = semel::test::make_broker(name);
    if (first == 1) broker->create("credits", 2);
    std::vector<semel::Message> messages;
    std::map<std::string, long> balances;
    for (int number = 1; number <= last; ++number) {
        messages.push_back(credit(name, number));
        if (number >= first && number % 3 == 0) messages.push_back(credit(name, number));
        balances[messages.back().ordering_key] += number;
    }
    broker->publish("credits", messages);
    for (const auto& [account, balance] : balances) std::printf("%s|%ld\n", account.c_str(), balance);
    return 0;
}
