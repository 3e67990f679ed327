// Events to NATS JetStream, pipelined, each with copy_key as Nats-Msg-Id.
//
// The stream's duplicate window is stream-wide and looks at nothing but that, so a "duplicate" is told as such: within the
// window it is this event published before. cnats calls back on a thread of its own; a mailbox takes what it says, and outlives
// the connection that may still be calling.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <unordered_map>

#include "consumers/nats/dial.hpp"
#include "consumers/nats/servers.hpp"
#include "outbox/cloud_event.hpp"
#include "outbox/publishers.hpp"

namespace semel::outbox {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds answer_max{10};
constexpr std::chrono::milliseconds gather_max{1};

/// The stream answered that it does not take this message: it may be the only one.
bool is_refusal(const jsPubAckErr& error) {
    switch (static_cast<int>(error.ErrCode)) {
        case 0: return error.Err == NATS_NO_RESPONDERS || error.Err == NATS_MAX_PAYLOAD;
        case JSClusterNotAvailErr:
        case JSInsufficientResourcesErr:
        case JSMemoryResourcesExceededErr:
        case JSStorageResourcesExceededErr:
        case JSNotEnabledErr:
        case JSNotEnabledForAccountErr: return false;  // of JetStream as a whole
        default: return true;
    }
}

/// A subject that a message can have: tokens with something in them, and no wildcard. The server ends the connection, or takes
/// it for two words, if one has anything else.
bool is_subject(std::string_view topic) {
    std::size_t begin = 0;
    while (begin <= topic.size()) {
        const std::string_view token = topic.substr(begin, topic.find('.', begin) - begin);
        if (token.empty() || token == "*" || token == ">") return false;
        for (const char c : token)
            if (static_cast<unsigned char>(c) <= 0x20 || c == 0x7f) return false;
        begin += token.size() + 1;
    }
    return true;
}

/// What cnats' thread leaves for ours.
class Mailbox {
public:
    /// True: it is the only one.
    bool expect(const natsMsg* message, OutboxPlace place) {
        const std::lock_guard lock(mutex_);
        expected_.emplace(message, place);
        return expected_.size() == 1;
    }
    void forget(const natsMsg* message) {
        const std::lock_guard lock(mutex_);
        expected_.erase(message);
    }
    /// What is answered late is of nobody: a message lives until its answer, so no other has its address meanwhile.
    void forget_all() {
        const std::lock_guard lock(mutex_);
        expected_.clear();
        came_.clear();
        why_.clear();
    }
    void answer(const natsMsg* message, const jsPubAck* taken, const jsPubAckErr* error) {
        const std::lock_guard lock(mutex_);
        const auto found = expected_.find(message);
        if (found == expected_.end()) return;
        const OutboxPlace place = found->second;
        expected_.erase(found);
        if (taken != nullptr) {
            came_.push_back({place, taken->Duplicate ? Receipt::What::duplicate : Receipt::What::confirmed, ""});
        } else {
            std::string why = error->ErrText == nullptr ? natsStatus_GetText(error->Err) : error->ErrText;
            if (error->Err == NATS_NO_RESPONDERS) why = "no stream takes this subject, or JetStream does not answer";
            if (is_refusal(*error))
                came_.push_back({place, Receipt::What::refused, std::move(why)});
            else if (why_.empty())
                why_ = std::move(why);
        }
        if (came_.size() >= enough_ || expected_.empty() || !why_.empty()) changed_.notify_one();
    }
    struct Came {
        std::vector<Receipt> receipts{};
        std::string why{};  ///< what went wrong
        std::size_t expected = 0;
    };
    Came wait(Duration time) {
        std::unique_lock lock(mutex_);
        const auto enough = [&] { return came_.size() >= enough_ || !why_.empty() || expected_.empty(); };
        // Of many the first few are not worth waking up for, as long as the others follow at once.
        enough_ = std::clamp<std::size_t>(expected_.size() / 8, 1, 64);
        changed_.wait_for(lock, std::min<Duration>(time, gather_max), enough);
        enough_ = 1;
        if (came_.empty()) changed_.wait_for(lock, time, enough);
        return {std::exchange(came_, {}), why_, expected_.size()};
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::unordered_map<const natsMsg*, OutboxPlace> expected_;
    std::vector<Receipt> came_;
    std::size_t enough_ = 1;  // to wake up for
    std::string why_;
};

/// One for each publisher, for as long as the process: the library does not say when its last call was.
Mailbox& new_mailbox() {
    static std::mutex mutex;
    static std::vector<std::unique_ptr<Mailbox>> all;
    const std::lock_guard lock(mutex);
    return *all.emplace_back(std::make_unique<Mailbox>());
}

void answered(jsCtx*, natsMsg* message, jsPubAck* taken, jsPubAckErr* error, void* mailbox) {
    static_cast<Mailbox*>(mailbox)->answer(message, taken, error);
    natsMsg_Destroy(message);
}

class NatsPublisher final : public Publisher {
public:
    explicit NatsPublisher(NatsOptions options)
        : options_(std::move(options)), where_(nats::without_credentials(nats::servers_of(options_.connection.url))) {}

    Result<Handed> publish(const OutboxRow& row) override {
        if (auto begun = begin(); !begun) return begun.failure();
        const Event& event = row.staged.event;
        if (!is_subject(row.staged.topic))
            return Handed{
                "the topic is no subject: tokens without spaces and wildcards, and dots between them (topic)"};
        natsMsg* raw = nullptr;
        natsStatus status = natsMsg_Create(&raw, row.staged.topic.c_str(), nullptr, event.data.data(),
                                           static_cast<int>(event.data.size()));
        if (status != NATS_OK) return Handed{fmt::format("{} (topic: a subject)", natsStatus_GetText(status))};
        nats::MessageHandle message(raw);
        const std::string key = copy_key(row.staged);
        // "NATS/1.0", an empty line, and the library's own header of the key, as they go over the wire.
        std::size_t bytes = event.data.size() + 12 + std::string_view("Nats-Msg-Id").size() + key.size() + 4;
        const auto add = [&](const char* name, const std::string& value) {
            bytes += std::string_view(name).size() + value.size() + 4;
            if (status == NATS_OK) status = natsMsgHeader_Add(raw, name, value.c_str());
        };
        for (const auto& [name, value] : binary_headers(event, "ce-", Encoding::percent)) add(name.c_str(), value);
        if (!event.data_content_type.empty()) add("content-type", event.data_content_type);
        if (!row.staged.ordering_key.empty()) add(ordering_header, percent_encoded(row.staged.ordering_key));
        if (status != NATS_OK) return Handed{natsStatus_GetText(status)};
        // The server ends the connection for one that is larger.
        if (const std::int64_t most = natsConnection_GetMaxPayload(connection_.get());
            most > 0 && bytes > static_cast<std::size_t>(most))
            return Handed{fmt::format("{} bytes with its headers, the server takes {} (max_payload)", bytes, most)};
        jsPubOptions options;
        jsPubOptions_Init(&options);
        options.MsgId = key.c_str();
        if (mailbox_.expect(raw, row.place)) heard_ = Steady::now();  // nothing was owed until now
        static_cast<void>(message.release());
        natsMsg* given = raw;
        status = js_PublishMsgAsync(jet_stream_.get(), &given, &options);
        if (status == NATS_OK) return Handed{};
        mailbox_.forget(raw);
        message.reset(given);  // null if the library has taken it
        if (status == NATS_MAX_PAYLOAD) return Handed{"larger than the server takes (max_payload)"};
        if (status == NATS_INVALID_SUBJECT || status == NATS_INVALID_ARG)
            return Handed{fmt::format("{} (topic: a subject)", natsStatus_GetText(status))};
        return failed(nats::last_error(status));
    }

    Result<std::vector<Receipt>> receipts(Duration wait) override {
        if (jet_stream_ == nullptr) return std::vector<Receipt>{};
        Mailbox::Came came = mailbox_.wait(wait);
        if (!came.receipts.empty() || came.expected == 0) heard_ = Steady::now();
        if (!came.receipts.empty()) return std::move(came.receipts);
        if (!came.why.empty()) return failed(came.why);
        if (came.expected > 0 && natsConnection_IsClosed(connection_.get())) return failed("the connection was lost");
        if (came.expected > 0 && Steady::now() - heard_ > answer_max)
            return failed(fmt::format("no answer in {} s", answer_max.count()));
        return std::move(came.receipts);
    }

    [[nodiscard]] bool keeps_order() const override { return false; }

    void start_over() override {
        if (jet_stream_ == nullptr) return;
        natsConnection_Close(connection_.get());
        jet_stream_.reset();
        connection_.reset();
        mailbox_.forget_all();
    }

    [[nodiscard]] std::string text() const override { return where_; }

private:
    Failure failed(std::string_view why) const {
        return {Code::unavailable, fmt::format("publish to {}: {}", where_, why)};
    }

    Status begin() {
        if (jet_stream_ != nullptr) return Done{};
        // A lost connection is met with a new one: then it is plain what was confirmed and what was not.
        auto dialled = nats::dial(options_.connection, nats::Reconnects::never);
        if (!dialled) return Failure{dialled.failure().code, failed(dialled.failure().message).message};
        jsOptions options;
        jsOptions_Init(&options);
        options.PublishAsync.MaxPending = static_cast<std::int64_t>(on_their_way_max()) + 1;
        options.PublishAsync.AckHandler = &answered;
        options.PublishAsync.AckHandlerClosure = &mailbox_;
        jsCtx* jet_stream = nullptr;
        if (const natsStatus status = natsConnection_JetStream(&jet_stream, dialled->get(), &options);
            status != NATS_OK)
            return failed(nats::last_error(status));
        jet_stream_.reset(jet_stream);
        connection_ = std::move(*dialled);
        heard_ = Steady::now();
        return Done{};
    }

    NatsOptions options_;
    std::string where_;
    nats::ConnectionHandle connection_;
    nats::JetStreamHandle jet_stream_;
    Mailbox& mailbox_ = new_mailbox();
    Steady::time_point heard_{};
};

}  // namespace

Result<std::unique_ptr<Publisher>> open_nats(const NatsOptions& options) {
    if (nats::servers_of(options.connection.url).empty())
        return Failure{Code::invalid, "nats: no server is named (url)"};
    return std::unique_ptr<Publisher>(std::make_unique<NatsPublisher>(options));
}

}  // namespace semel::outbox
