// From the options to a connection with an inbox, and to a consumer on the server.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>

#include "consumers/nats/dial.hpp"
#include "consumers/nats/millis.hpp"
#include "consumers/nats/servers.hpp"
#include "consumers/nats/wire.hpp"

namespace semel::nats {
namespace {

Terms terms_of(const jsConsumerConfig& config) {
    // Of a list of delays the shortest: to be early is harmless.
    std::int64_t ack_wait = config.AckWait;
    if (config.BackOffLen > 0) ack_wait = *std::min_element(config.BackOff, config.BackOff + config.BackOffLen);
    return {Duration{ack_wait / 1000}, config.MaxRequestBatch, Duration{config.MaxRequestExpires / 1000}};
}

/// Why this consumer cannot be used, or nothing.
std::string_view problem_of(const jsConsumerConfig& config, const Options& options) {
    if (config.DeliverSubject != nullptr && *config.DeliverSubject != '\0')
        return "it is a push consumer; a pull consumer is needed (durable)";
    if (config.AckPolicy != js_AckExplicit) return "it does not acknowledge explicitly (durable)";
    const std::string_view filter = config.FilterSubject == nullptr ? "" : config.FilterSubject;
    if (!options.subject.empty() && filter != options.subject) return "it has another filter (durable, subject)";
    return "";
}

}  // namespace

Result<std::unique_ptr<Wire>> Wire::connect(const Options& options) {
    const auto servers = servers_of(options.url);
    static std::atomic<std::uint64_t> wires = 0;
    std::unique_ptr<Wire> wire(new Wire());
    wire->number_ = ++wires;
    wire->where_ = fmt::format("{}/{} at {}", options.stream, options.durable, without_credentials(servers));
    wire->ordering_header_ = options.ordering_header;
    wire->next_subject_ = fmt::format("$JS.API.CONSUMER.MSG.NEXT.{}.{}", options.stream, options.durable);
    wire->api_millis_max_ = millis_of(options.connect_timeout);

    auto dialled = dial(options, Reconnects::for_ever);
    if (!dialled) return wire->failed(dialled.failure().code, "connect", dialled.failure().message);
    wire->connection_ = std::move(*dialled);
    natsConnection* const connection = wire->connection_.get();
    natsStatus status = NATS_OK;
    natsInbox* inbox = nullptr;
    status = natsInbox_Create(&inbox);
    const InboxHandle inbox_owned(inbox);
    jsCtx* jet_stream = nullptr;
    if (status == NATS_OK) status = natsConnection_JetStream(&jet_stream, connection, nullptr);
    wire->jet_stream_.reset(jet_stream);
    natsSubscription* subscription = nullptr;
    if (status == NATS_OK) {
        wire->inbox_ = std::string(inbox) + ".";
        status = natsConnection_SubscribeSync(&subscription, connection, (wire->inbox_ + "*").c_str());
        wire->subscription_.reset(subscription);
    }
    // The library would drop what is over its limits; requests bound what comes.
    if (status == NATS_OK) status = natsSubscription_SetPendingLimits(subscription, -1, -1);
    if (status != NATS_OK) return wire->failed(Code::unavailable, "subscribe", last_error(status));
    return wire;
}

Failure Wire::refused(std::string_view what, natsStatus status, jsErrCode error) const {
    if (error == JSStreamNotFoundErr) return failed(Code::invalid, what, "there is no such stream (stream)");
    if (status == NATS_NO_RESPONDERS)
        return failed(Code::unavailable, what, "JetStream does not answer, or is not enabled on this server");
    // JetStream's own errors are about the request and stay, except those in the fifties: no room, no leader, not yet.
    const bool passing = error == 0 || error == JSClusterNotAvailErr || error == JSInsufficientResourcesErr ||
                         error == JSClusterNotLeaderErr;
    return failed(is_refusal(status) || !passing ? Code::invalid : Code::unavailable, what, last_error(status));
}

Result<ConsumerInfoHandle> Wire::look_up(const Options& options, std::string_view what) {
    jsOptions api;
    jsOptions_Init(&api);
    api.Wait = api_millis_max_;
    jsConsumerInfo* info = nullptr;
    jsErrCode error{};
    const natsStatus status =
        js_GetConsumerInfo(&info, jet_stream_.get(), options.stream.c_str(), options.durable.c_str(), &api, &error);
    if (status == NATS_OK) return ConsumerInfoHandle(info);
    if (error == JSConsumerNotFoundErr) return ConsumerInfoHandle();
    return refused(what, status, error);
}

Result<ConsumerInfoHandle> Wire::make(const Options& options) {
    jsOptions api;
    jsOptions_Init(&api);
    api.Wait = api_millis_max_;
    jsConsumerConfig config;
    jsConsumerConfig_Init(&config);
    config.Durable = options.durable.c_str();
    config.DeliverPolicy = js_DeliverAll;
    config.AckPolicy = js_AckExplicit;
    config.AckWait = std::chrono::nanoseconds(options.ack_wait).count();
    config.MaxAckPending = options.ack_pending_max;
    if (!options.subject.empty()) config.FilterSubject = options.subject.c_str();
    jsConsumerInfo* info = nullptr;
    jsErrCode error{};
    const natsStatus status = js_AddConsumer(&info, jet_stream_.get(), options.stream.c_str(), &config, &api, &error);
    if (status == NATS_OK) return ConsumerInfoHandle(info);
    // Somebody else may have been first, with other settings.
    auto found = look_up(options, "make the consumer");
    if (found && *found != nullptr) return found;
    return refused("make the consumer", status, error);
}

Result<Terms> Wire::find_consumer(const Options& options, bool may_make) {
    auto found = look_up(options, "look for the consumer");
    if (found && *found == nullptr && !may_make)
        return failed(Code::unavailable, "look for the consumer",
                      "it was there and is gone; a new one would begin at the first message, and is made only when "
                      "this is started again (durable)");
    if (found && *found == nullptr) found = make(options);
    if (!found) return std::move(found).failure();
    const jsConsumerConfig& config = *(*found)->Config;
    if (const auto problem = problem_of(config, options); !problem.empty())
        return failed(Code::invalid, "use the consumer", problem);
    return terms_of(config);
}

}  // namespace semel::nats
