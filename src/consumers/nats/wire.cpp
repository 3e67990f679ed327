#include "consumers/nats/wire.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

#include "consumers/nats/millis.hpp"

namespace semel::nats {
namespace {

Ended ended_of(natsMsg* raw) {
    Ended ended;
    const char* status = nullptr;
    if (natsMsgHeader_Get(raw, "Status", &status) == NATS_OK)
        std::from_chars(status, status + std::strlen(status), ended.status);
    const char* text = nullptr;
    if (natsMsgHeader_Get(raw, "Description", &text) == NATS_OK) ended.text = text;
    return ended;
}

constexpr int status_no_responders = 503;

}  // namespace

Failure Wire::failed(Code code, std::string_view what, std::string_view why) const {
    return {code, fmt::format("{} {}: {}", what, where_, why)};
}

bool Wire::connected() const { return natsConnection_Status(connection_.get()) == NATS_CONN_STATUS_CONNECTED; }
bool Wire::closed() const { return natsConnection_IsClosed(connection_.get()); }

std::uint64_t Wire::epoch() const {
    natsStatistics* made = nullptr;
    if (natsStatistics_Create(&made) != NATS_OK) return 0;
    const std::unique_ptr<natsStatistics, Destroy<natsStatistics_Destroy>> statistics(made);
    std::uint64_t in_messages = 0, in_bytes = 0, out_messages = 0, out_bytes = 0, reconnects = 0;
    natsConnection_GetStats(connection_.get(), made);
    natsStatistics_GetCounts(made, &in_messages, &in_bytes, &out_messages, &out_bytes, &reconnects);
    return number_ << 32 | reconnects;
}

Status Wire::request(std::size_t batch, Duration expires) {
    answers_to_ = inbox_ + std::to_string(++requests_);
    const std::string body =
        fmt::format(R"({{"batch":{},"no_wait":true,"expires":{}}})", batch, std::chrono::nanoseconds(expires).count());
    const natsStatus status = natsConnection_PublishRequest(
        connection_.get(), next_subject_.c_str(), answers_to_.c_str(), body.data(), static_cast<int>(body.size()));
    if (status != NATS_OK) return failed(Code::unavailable, "fetch", natsStatus_GetText(status));
    return Done{};
}

Result<Next> Wire::next(Duration wait) {
    natsMsg* came = nullptr;
    const natsStatus status = natsSubscription_NextMsg(&came, subscription_.get(), millis_of(wait));
    const MessageHandle message(came);
    if (status == NATS_TIMEOUT) return Next{Nothing{}};
    if (status == NATS_NO_RESPONDERS) return Next{Ended{status_no_responders, "No Responders"}};
    if (status != NATS_OK) return failed(Code::unavailable, "fetch", natsStatus_GetText(status));
    // A message keeps its subject; what the server has to say about a request is addressed to the inbox.
    const std::string_view subject = natsMsg_GetSubject(came);
    if (subject == answers_to_) return Next{ended_of(came)};
    if (subject.starts_with(inbox_)) return Next{Nothing{}};
    if (auto delivered = delivered_of(came, ordering_header_)) return Next{*std::move(delivered)};
    return Next{Nothing{}};
}

std::size_t Wire::waiting() const {
    std::uint64_t count = 0;
    natsSubscription_QueuedMsgs(subscription_.get(), &count);
    return count;
}

Status Wire::say(const std::string& reply, std::string_view word) {
    const natsStatus status =
        natsConnection_Publish(connection_.get(), reply.c_str(), word.data(), static_cast<int>(word.size()));
    if (status != NATS_OK) return failed(Code::unavailable, "acknowledge", natsStatus_GetText(status));
    return Done{};
}

Status Wire::confirm(const std::string& reply, std::string_view word, Duration wait) {
    natsMsg* receipt = nullptr;
    const natsStatus status = natsConnection_Request(&receipt, connection_.get(), reply.c_str(), word.data(),
                                                     static_cast<int>(word.size()), millis_of(wait));
    const MessageHandle owned(receipt);
    if (status != NATS_OK) return failed(Code::unavailable, "flush", natsStatus_GetText(status));
    return Done{};
}

void Wire::close(Duration wait) {
    if (connected()) natsConnection_FlushTimeout(connection_.get(), millis_of(wait));
    subscription_.reset();
    natsConnection_Close(connection_.get());
}

}  // namespace semel::nats
