// NATS JetStream for the tests: a stream per topic, on disk, and publishing with receipts.
#include <fmt/format.h>
#include <nats/nats.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "broker.hpp"
#include "semel/nats.hpp"

namespace semel::test {
namespace {

using Steady = std::chrono::steady_clock;

constexpr auto reach_max = std::chrono::seconds{30};
constexpr const char* ordering_header = "ordering-key";

template <auto destroy>
struct Destroy {
    template <class T>
    void operator()(T* object) const {
        destroy(object);
    }
};

/// It may work the next time.
struct Lost : std::runtime_error {
    using std::runtime_error::runtime_error;
};

void check(natsStatus status, const char* what) {
    if (status == NATS_OK) return;
    const char* last = nats_GetLastError(nullptr);
    throw Lost(fmt::format("{}: {} {}", what, natsStatus_GetText(status), last == nullptr ? "" : last));
}

void ignore(natsConnection*, natsSubscription*, natsStatus, void*) {}

class Publisher {
public:
    explicit Publisher(const std::string& url) {
        natsOptions* options = nullptr;
        check(natsOptions_Create(&options), "options");
        const std::unique_ptr<natsOptions, Destroy<natsOptions_Destroy>> owned(options);
        check(natsOptions_SetURL(options, url.c_str()), "url");
        // A restart is met with a new connection: then it is plain what was confirmed and what was not.
        check(natsOptions_SetAllowReconnect(options, false), "options");
        check(natsOptions_SetErrorHandler(options, &ignore, nullptr), "options");
        natsConnection* connection = nullptr;
        check(natsConnection_Connect(&connection, options), "connect");
        connection_.reset(connection);
        jsCtx* jet_stream = nullptr;
        jsOptions js;
        jsOptions_Init(&js);
        js.PublishAsync.MaxPending = 4000;
        check(natsConnection_JetStream(&jet_stream, connection, &js), "JetStream");
        jet_stream_.reset(jet_stream);
    }

    [[nodiscard]] bool usable() const { return !natsConnection_IsClosed(connection_.get()); }

    void create(const std::string& topic) {
        jsStreamConfig config;
        jsStreamConfig_Init(&config);
        const char* subjects[] = {topic.c_str()};
        config.Name = topic.c_str();
        config.Subjects = subjects;
        config.SubjectsLen = 1;
        config.Storage = js_FileStorage;
        check(js_AddStream(nullptr, jet_stream_.get(), &config, nullptr, nullptr), "make the stream");
    }

    void remove(const std::string& topic) {
        const natsStatus status = js_DeleteStream(jet_stream_.get(), topic.c_str(), nullptr, nullptr);
        if (status != NATS_NOT_FOUND) check(status, "delete the stream");
    }

    void publish(const std::string& topic, std::span<const Message> messages) {
        for (const Message& message : messages) send(topic, message);
        jsPubOptions options;
        jsPubOptions_Init(&options);
        options.MaxWait = 10'000;
        check(js_PublishAsyncComplete(jet_stream_.get(), &options), "publish");
        // Complete are also those that the server refused; they stay in this list.
        natsMsgList refused{};
        if (js_PublishAsyncGetPendingList(&refused, jet_stream_.get()) == NATS_OK) {
            const int count = refused.Count;
            natsMsgList_Destroy(&refused);
            if (count > 0) throw Lost(fmt::format("publish: {} messages without a receipt", count));
        }
    }

private:
    void send(const std::string& topic, const Message& message) {
        natsMsg* made = nullptr;
        check(natsMsg_Create(&made, topic.c_str(), nullptr, message.body.data(), static_cast<int>(message.body.size())),
              "message");
        std::unique_ptr<natsMsg, Destroy<natsMsg_Destroy>> owned(made);
        const auto add = [&](const char* name, const std::string& value) {
            check(natsMsgHeader_Add(made, name, value.c_str()), "header");
        };
        for (const auto& header : message.headers) add(header.name.c_str(), header.value);
        if (!message.content_type.empty()) add("content-type", message.content_type);
        if (!message.ordering_key.empty()) add(ordering_header, message.ordering_key);
        natsMsg* raw = owned.release();
        const natsStatus status = js_PublishMsgAsync(jet_stream_.get(), &raw, nullptr);
        owned.reset(raw);  // null if the library has taken it
        check(status, "publish");
    }

    std::unique_ptr<natsConnection, Destroy<natsConnection_Destroy>> connection_;
    std::unique_ptr<jsCtx, Destroy<jsCtx_Destroy>> jet_stream_;
};

class NatsBroker final : public Broker {
public:
    explicit NatsBroker(std::string url) : url_(std::move(url)) {}

    [[nodiscard]] std::string name() const override { return "nats"; }

    void create(const std::string& topic, int) override {
        reach([&](Publisher& publisher) { publisher.create(topic); });
    }
    void remove(const std::string& topic) override {
        reach([&](Publisher& publisher) { publisher.remove(topic); });
    }
    void publish(const std::string& topic, std::span<const Message> messages) override {
        reach([&](Publisher& publisher) { publisher.publish(topic, messages); });
    }

    std::unique_ptr<Source> open(const std::string& topic, const std::string& group, const Tuning& tuning) override {
        nats::Options options;
        options.url = url_;
        options.stream = topic;
        options.durable = group;
        options.ack_wait = tuning.redeliver_after;
        options.ack_pending_max = static_cast<std::int64_t>(tuning.unacknowledged_max);
        options.ordering_header = ordering_header;
        auto source = nats::open(std::move(options));
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
                if (publisher_ == nullptr || !publisher_->usable()) publisher_ = std::make_unique<Publisher>(url_);
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

std::unique_ptr<Broker> make_nats(std::string address) { return std::make_unique<NatsBroker>(std::move(address)); }

}  // namespace semel::test
