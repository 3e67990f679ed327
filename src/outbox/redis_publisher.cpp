// Events to Redis Streams: XADD, pipelined. An error before the reply leaves it unknown whether the entry was added: it is
// added again, with the same id of the event.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <optional>

#include "consumers/redis/wire.hpp"
#include "outbox/cloud_event.hpp"
#include "outbox/publishers.hpp"

namespace semel::outbox {
namespace {

using Clock = std::chrono::steady_clock;

/// Of the server as a whole: it passes, or a person has to do something for all events.
bool is_about_the_server(std::string_view error) {
    constexpr std::string_view all[] = {"OOM",       "LOADING",    "READONLY",    "MISCONF",  "BUSY",      "NOAUTH",
                                        "WRONGPASS", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "NOREPLICAS"};
    return std::ranges::any_of(all, [&](std::string_view word) { return error.starts_with(word); });
}

class RedisPublisher final : public Publisher {
public:
    RedisPublisher(RedisOptions options, redis::Address address)
        : options_(std::move(options)), address_(std::move(address)) {}

    Result<Handed> publish(const OutboxRow& row) override {
        if (auto begun = begin(); !begun) return begun.failure();
        const Event& event = row.staged.event;
        const auto headers = binary_headers(event, "ce-", Encoding::plain);
        const std::string most = std::to_string(options_.entries_max);
        std::vector<std::string_view> command{"XADD", row.staged.topic};
        if (options_.entries_max > 0) command.insert(command.end(), {"MAXLEN", "~", most});
        command.emplace_back("*");
        for (const auto& [name, value] : headers) command.insert(command.end(), {name, value});
        if (!event.data_content_type.empty()) command.insert(command.end(), {"content-type", event.data_content_type});
        if (!row.staged.ordering_key.empty()) command.insert(command.end(), {ordering_header, row.staged.ordering_key});
        command.insert(command.end(), {"data", event.data});
        if (auto sent = wire_->send(command); !sent) return failed(sent.failure().message);
        if (asked_.empty()) heard_ = Clock::now();
        asked_.push_back(row.place);
        return Handed{};
    }

    Result<std::vector<Receipt>> receipts(Duration wait) override {
        std::vector<Receipt> came;
        auto until = Clock::now() + wait;
        while (wire_ && !asked_.empty()) {
            auto reply = wire_->next(until);
            if (!reply) return came.empty() ? Result<std::vector<Receipt>>(failed(reply.failure().message)) : came;
            if (!*reply) break;
            heard_ = until = Clock::now();  // what else is there, without waiting
            const std::optional<OutboxPlace> place = asked_.front();
            asked_.pop_front();
            const redisReply& answer = ***reply;
            const std::string error =
                answer.type == REDIS_REPLY_ERROR ? std::string(redis::text_of(answer)) : std::string();
            if (!error.empty() && (!place || is_about_the_server(error))) {
                if (came.empty()) return failed(error);
                broken_ = error;
                break;
            }
            if (place)
                came.push_back({*place, error.empty() ? Receipt::What::confirmed : Receipt::What::refused, error});
        }
        if (came.empty() && !broken_.empty()) return failed(broken_);
        if (came.empty() && !asked_.empty() && Clock::now() - heard_ > options_.connection.timeout)
            return failed("no answer in time (timeout)");
        return came;
    }

    [[nodiscard]] bool keeps_order() const override { return false; }
    void start_over() override {
        wire_.reset();
        asked_.clear();
        broken_.clear();
    }
    [[nodiscard]] std::string text() const override { return "redis at " + address_.text(); }

private:
    Failure failed(std::string_view why) const {
        return {Code::unavailable, fmt::format("publish to {}: {}", text(), why)};
    }

    Status begin() {
        if (wire_) return Done{};
        auto wire = redis::Wire::begin(address_);
        if (!wire) return failed(wire.failure().message);
        wire_ = std::move(*wire);
        heard_ = Clock::now();
        const auto ask = [&](const std::vector<std::string_view>& command) -> Status {
            if (auto sent = wire_->send(command); !sent) return failed(sent.failure().message);
            asked_.emplace_back();
            return Done{};
        };
        if (!address_.password.empty()) {
            std::vector<std::string_view> command{"AUTH"};
            if (!address_.user.empty()) command.emplace_back(address_.user);
            command.emplace_back(address_.password);
            if (auto asked = ask(command); !asked) return asked;
        }
        const std::string database = std::to_string(address_.database);
        return address_.database != 0 ? ask({"SELECT", database}) : Status{Done{}};
    }

    RedisOptions options_;
    redis::Address address_;
    std::optional<redis::Wire> wire_;
    std::deque<std::optional<OutboxPlace>> asked_;  ///< in order; nothing: about the connection
    std::string broken_;
    Clock::time_point heard_{};
};

}  // namespace

Result<std::unique_ptr<Publisher>> open_redis(const RedisOptions& options) {
    auto address = redis::parse_address(options.connection.url);
    if (!address) return address.failure();
    return std::unique_ptr<Publisher>(std::make_unique<RedisPublisher>(options, std::move(*address)));
}

}  // namespace semel::outbox
