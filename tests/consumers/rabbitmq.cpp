// RabbitMQ for the tests: quorum queues, and publishing with confirms. On librabbitmq itself, not on the source's parts:
// what judges them should not share their mistakes.
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <fmt/format.h>

#include <chrono>
#include <map>
#include <set>
#include <stdexcept>
#include <thread>

#include "broker.hpp"
#include "semel/rabbitmq.hpp"

namespace semel::test {
namespace {

using Steady = std::chrono::steady_clock;

constexpr auto reach_max = std::chrono::seconds{30};
constexpr std::size_t unconfirmed_max = 2000;
constexpr amqp_channel_t channel = 1;
constexpr const char* ordering_header = "ordering-key";

amqp_bytes_t bytes_of(const std::string& text) { return {text.size(), const_cast<char*>(text.data())}; }

/// The connection was lost, or refused: it may work the next time.
struct Lost : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Destroy {
    void operator()(amqp_connection_state_t state) const { amqp_destroy_connection(state); }
};

class Publisher {
public:
    explicit Publisher(const std::string& url) : connection_(amqp_new_connection()) {
        std::string copy = url;
        amqp_connection_info info{};
        amqp_default_connection_info(&info);
        if (amqp_parse_url(copy.data(), &info) != AMQP_STATUS_OK)
            throw std::runtime_error("SEMEL_TEST_RABBITMQ: no URL");
        const timeval timeout{5, 0};
        amqp_socket_t* const socket = amqp_tcp_socket_new(connection_.get());
        check(amqp_socket_open_noblock(socket, info.host, info.port, &timeout), "connect");
        amqp_set_handshake_timeout(connection_.get(), &timeout);
        amqp_set_rpc_timeout(connection_.get(), &timeout);
        const char* const vhost = *info.vhost == '\0' ? "/" : info.vhost;
        check(amqp_login(connection_.get(), vhost, 0, 131072, 0, AMQP_SASL_METHOD_PLAIN, info.user, info.password),
              "log in");
        amqp_channel_open(connection_.get(), channel);
        check("open a channel");
        amqp_confirm_select(connection_.get(), channel);
        check("select confirms");
    }

    void create(const std::string& queue) {
        amqp_table_entry_t type{};
        type.key = amqp_cstring_bytes("x-queue-type");
        type.value.kind = AMQP_FIELD_KIND_UTF8;
        type.value.value.bytes = amqp_cstring_bytes("quorum");
        amqp_queue_declare(connection_.get(), channel, bytes_of(queue), 0, 1, 0, 0, amqp_table_t{1, &type});
        check("declare");
    }

    void remove(const std::string& queue) {
        amqp_queue_delete(connection_.get(), channel, bytes_of(queue), 0, 0);
        check("delete");
    }

    /// Sends those that are not confirmed yet, and strikes them off when they are.
    void publish(const std::string& queue, std::span<const Message> messages, std::set<std::size_t>& open) {
        const std::set<std::size_t> todo = open;
        for (const std::size_t index : todo) {
            send(queue, messages[index]);
            unconfirmed_.emplace_hint(unconfirmed_.end(), ++sequence_, index);
            while (read(std::chrono::milliseconds{0}, open)) {
            }
            while (unconfirmed_.size() >= unconfirmed_max) read(std::chrono::seconds{10}, open);
        }
        while (!unconfirmed_.empty())
            if (!read(std::chrono::seconds{10}, open)) throw Lost("publish: no confirm in 10 s");
    }

private:
    void check(int status, const char* what) {
        if (status != AMQP_STATUS_OK) throw Lost(fmt::format("{}: {}", what, amqp_error_string2(status)));
    }
    void check(const amqp_rpc_reply_t& reply, const char* what) {
        if (reply.reply_type == AMQP_RESPONSE_NORMAL) return;
        if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION) check(reply.library_error, what);
        throw Lost(fmt::format("{}: refused by the server", what));
    }
    void check(const char* what) { check(amqp_get_rpc_reply(connection_.get()), what); }

    void send(const std::string& queue, const Message& message) {
        std::vector<amqp_table_entry_t> entries;
        const auto add = [&](amqp_bytes_t name, const std::string& value) {
            amqp_table_entry_t entry{};
            entry.key = name;
            entry.value.kind = AMQP_FIELD_KIND_UTF8;
            entry.value.value.bytes = bytes_of(value);
            entries.push_back(entry);
        };
        for (const auto& header : message.headers) add(bytes_of(header.name), header.value);
        if (!message.ordering_key.empty()) add(amqp_cstring_bytes(ordering_header), message.ordering_key);
        amqp_basic_properties_t properties{};
        properties._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG;
        properties.delivery_mode = 2;
        properties.headers = {static_cast<int>(entries.size()), entries.data()};
        if (!message.content_type.empty()) {
            properties._flags |= AMQP_BASIC_CONTENT_TYPE_FLAG;
            properties.content_type = bytes_of(message.content_type);
        }
        // Not mandatory, an unroutable message would be confirmed and thrown away.
        constexpr amqp_boolean_t mandatory = 1;
        check(amqp_basic_publish(connection_.get(), channel, amqp_empty_bytes, bytes_of(queue), mandatory, 0,
                                 &properties, bytes_of(message.body)),
              "publish");
    }

    /// One frame; false: none came.
    bool read(std::chrono::milliseconds wait, std::set<std::size_t>& open) {
        amqp_frame_t frame{};
        const timeval timeout{wait.count() / 1000, wait.count() % 1000 * 1000};
        const int status = amqp_simple_wait_frame_noblock(connection_.get(), &frame, &timeout);
        if (status == AMQP_STATUS_TIMEOUT) return false;
        check(status, "publish");
        if (frame.frame_type == AMQP_FRAME_METHOD) handle(frame.payload.method, open);
        amqp_maybe_release_buffers_on_channel(connection_.get(), channel);
        return true;
    }

    void handle(const amqp_method_t& method, std::set<std::size_t>& open) {
        switch (method.id) {
            case AMQP_BASIC_ACK_METHOD: {
                const auto* ack = static_cast<const amqp_basic_ack_t*>(method.decoded);
                const auto end = unconfirmed_.upper_bound(ack->delivery_tag);
                auto at = ack->multiple != 0 ? unconfirmed_.begin() : unconfirmed_.find(ack->delivery_tag);
                while (at != end && at != unconfirmed_.end()) {
                    open.erase(at->second);
                    at = unconfirmed_.erase(at);
                }
                return;
            }
            case AMQP_BASIC_NACK_METHOD: throw Lost("publish: the broker could not take a message");
            case AMQP_BASIC_RETURN_METHOD: throw std::runtime_error("publish: there is no such queue");
            case AMQP_CHANNEL_CLOSE_METHOD:
            case AMQP_CONNECTION_CLOSE_METHOD: throw Lost("publish: closed by the server");
            default: return;
        }
    }

    std::unique_ptr<amqp_connection_state_t_, Destroy> connection_;
    std::map<std::uint64_t, std::size_t> unconfirmed_;  ///< publish number on this channel -> message
    std::uint64_t sequence_ = 0;
};

class RabbitmqBroker final : public Broker {
public:
    explicit RabbitmqBroker(std::string url) : url_(std::move(url)) {}

    [[nodiscard]] std::string name() const override { return "rabbitmq"; }

    void create(const std::string& topic, int) override {
        reach([&](Publisher& publisher) { publisher.create(topic); });
    }
    void remove(const std::string& topic) override {
        reach([&](Publisher& publisher) { publisher.remove(topic); });
    }

    void publish(const std::string& topic, std::span<const Message> messages) override {
        std::set<std::size_t> open;
        for (std::size_t i = 0; i < messages.size(); ++i) open.insert(open.end(), i);
        reach([&](Publisher& publisher) { publisher.publish(topic, messages, open); });
    }

    std::unique_ptr<Source> open(const std::string& topic, const std::string&, const Tuning& tuning) override {
        rabbitmq::Options options;
        options.url = url_;
        options.queue = topic;
        options.prefetch = static_cast<std::uint16_t>(std::min<std::size_t>(tuning.unacknowledged_max, 65535));
        options.ordering_header = ordering_header;
        auto source = rabbitmq::open(std::move(options));
        if (!source) throw std::runtime_error(source.failure().message);
        return *std::move(source);
    }

private:
    /// Again and again until it works, for as long as the contract says.
    template <class Work>
    void reach(Work work) {
        const auto deadline = Steady::now() + reach_max;
        while (true) {
            try {
                if (publisher_ == nullptr) publisher_ = std::make_unique<Publisher>(url_);
                return work(*publisher_);
            } catch (const Lost&) {
                publisher_.reset();
                if (Steady::now() > deadline) throw;
                std::this_thread::sleep_for(std::chrono::milliseconds{200});
            }
        }
    }

    const std::string url_;
    std::unique_ptr<Publisher> publisher_;
};

}  // namespace

std::unique_ptr<Broker> make_rabbitmq(std::string address) {
    return std::make_unique<RabbitmqBroker>(std::move(address));
}

}  // namespace semel::test
