// Redis Streams for the tests. The ordering key is the field `key`.
#include "semel/redis.hpp"

#include <algorithm>
#include <optional>
#include <stdexcept>

#include "broker.hpp"
#include "consumers/redis/wire.hpp"

namespace semel::test {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::string_view ordering_field = "key";
constexpr std::size_t ahead_max = 500;  // commands sent before a reply is waited for
constexpr seconds patience{30};

class RedisBroker final : public Broker {
public:
    explicit RedisBroker(std::string url) : url_(std::move(url)) {
        auto address = redis::parse_address(url_);
        if (!address) throw std::runtime_error("SEMEL_TEST_REDIS: " + address.failure().message);
        address_ = std::move(address).value();
    }

    [[nodiscard]] std::string name() const override { return "redis"; }

    void create(const std::string& topic, int) override {
        command({"XGROUP", "CREATE", topic, "semel-test", "0", "MKSTREAM"});
        command({"XGROUP", "DESTROY", topic, "semel-test"});
    }

    void remove(const std::string& topic) override { command({"DEL", topic}); }

    void publish(const std::string& topic, std::span<const Message> messages) override {
        connect();
        for (std::size_t from = 0; from < messages.size(); from += ahead_max) {
            const auto some = messages.subspan(from, std::min(ahead_max, messages.size() - from));
            for (const Message& message : some) {
                std::vector<std::string_view> add{"XADD", topic, "*"};
                for (const MessageHeader& header : message.headers) add.insert(add.end(), {header.name, header.value});
                if (!message.ordering_key.empty()) add.insert(add.end(), {ordering_field, message.ordering_key});
                if (!message.content_type.empty()) add.insert(add.end(), {"content-type", message.content_type});
                add.insert(add.end(), {"data", message.body});
                send(add);
            }
            for (std::size_t count = 0; count < some.size(); ++count) reply();
        }
    }

    std::unique_ptr<Source> open(const std::string& topic, const std::string& group, const Tuning& tuning) override {
        redis::Options options;
        options.url = url_;
        options.stream = topic;
        options.group = group;
        options.idle_max = tuning.redeliver_after;
        options.ordering_field = ordering_field;
        auto source = redis::open(std::move(options));
        if (!source) throw std::runtime_error(source.failure().message);
        return std::move(source).value();
    }

private:
    /// A connection that answers: the server may have been restarted since the last call.
    void connect() {
        const auto deadline = steady_clock::now() + patience;
        std::string why;
        while (steady_clock::now() < deadline) {
            try {
                if (!wire_) begin();
                send({"PING"});
                reply();
                return;
            } catch (const std::runtime_error& error) {
                why = error.what();
                wire_.reset();
            }
        }
        throw std::runtime_error(why);
    }

    void begin() {
        auto wire = redis::Wire::begin(address_);
        if (!wire) throw std::runtime_error(wire.failure().message);
        wire_ = std::move(wire).value();
        if (!address_.password.empty()) {
            send({"AUTH", address_.user.empty() ? "default" : std::string_view(address_.user), address_.password});
            reply();
        }
        if (address_.database != 0) {
            send({"SELECT", std::to_string(address_.database)});
            reply();
        }
    }

    void command(const std::vector<std::string_view>& arguments) {
        connect();
        send(arguments);
        reply();
    }

    void send(const std::vector<std::string_view>& arguments) {
        if (auto sent = wire_->send(arguments); !sent) lost(sent.failure().message);
    }

    void reply() {
        auto reply = wire_->next(steady_clock::now() + patience);
        if (!reply) return lost(reply.failure().message);
        if (!*reply) return lost("no reply");
        if ((**reply)->type == REDIS_REPLY_ERROR) lost(std::string(redis::text_of(***reply)));
    }

    [[noreturn]] void lost(const std::string& why) {
        wire_.reset();
        throw std::runtime_error("redis at " + address_.text() + ": " + why);
    }

    std::string url_;
    redis::Address address_;
    std::optional<redis::Wire> wire_;
};

}  // namespace

std::unique_ptr<Broker> make_redis(std::string address) { return std::make_unique<RedisBroker>(std::move(address)); }

}  // namespace semel::test
