// Events to an HTTP endpoint: one request each, several at once, with copy_key as Idempotency-Key.
//
// 2xx is the receipt. 429, 502, 503, 504, 401, 403, 407 and no answer at all are about the endpoint: everything is tried again
// after a pause, with the same keys. Any other answer refuses the event, which is tried again, too, and stops nobody but its
// ordering key: a 500 may be this event's own, and a 409 means that somebody else, a relay that was thought dead, is
// delivering it.
#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "outbox/cloud_event.hpp"
#include "outbox/publishers.hpp"

namespace semel::outbox {
namespace {

class HttpPublisher final : public Publisher {
public:
    explicit HttpPublisher(HttpOptions options) : options_(std::move(options)) {}
    ~HttpPublisher() override { start_over(); }
    HttpPublisher(const HttpPublisher&) = delete;
    HttpPublisher& operator=(const HttpPublisher&) = delete;

    Result<Handed> publish(const OutboxRow& row) override {
        begin();
        const std::lock_guard lock(mutex_);
        waiting_.push_back({row.place, request_of(row.staged)});
        ++on_their_way_;
        work_.notify_one();
        return Handed{};
    }

    Result<std::vector<Receipt>> receipts(Duration wait) override {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, wait, [&] { return !came_.empty() || !why_.empty() || on_their_way_ == 0; });
        on_their_way_ -= came_.size();
        if (came_.empty() && !why_.empty())
            return Failure{Code::unavailable, fmt::format("publish to {}: {}", text(), why_)};
        return std::exchange(came_, {});
    }

    [[nodiscard]] bool keeps_order() const override { return false; }
    [[nodiscard]] std::size_t on_their_way_max() const override { return options_.concurrency; }

    void start_over() override {
        {
            const std::lock_guard lock(mutex_);
            waiting_.clear();
        }
        for (std::jthread& each : workers_) each.request_stop();
        workers_.clear();  // those that wait for an answer see it within a second
        came_.clear();
        why_.clear();
        on_their_way_ = 0;
    }

    [[nodiscard]] std::string text() const override { return options_.url; }

private:
    struct Work {
        OutboxPlace place{};
        HttpRequest request{};
    };

    [[nodiscard]] HttpRequest request_of(const StagedEvent& staged) const {
        HttpRequest request{.url = options_.url, .body = staged.event.data};
        if (!staged.topic.starts_with('/')) request.url += "/";
        request.url += path_encoded(staged.topic);
        for (auto& [name, value] : binary_headers(staged.event, "ce-", Encoding::percent))
            request.fields.push_back({std::move(name), std::move(value)});
        if (!staged.event.data_content_type.empty())
            request.fields.push_back({"Content-Type", staged.event.data_content_type});
        request.fields.push_back({"Idempotency-Key", copy_key(staged)});
        if (!staged.ordering_key.empty())
            request.fields.push_back({ordering_header, percent_encoded(staged.ordering_key)});
        for (const auto& [name, value] : options_.headers) request.fields.push_back({name, value});
        return request;
    }

    void begin() {
        while (workers_.size() < options_.concurrency)
            workers_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    }

    void run(const std::stop_token& stop) {
        auto caller = HttpCaller::open(options_.call.tls);
        while (!stop.stop_requested()) {
            std::optional<Work> work;
            {
                std::unique_lock lock(mutex_);
                if (!work_.wait(lock, stop, [&] { return !waiting_.empty(); })) return;
                work = std::move(waiting_.front());
                waiting_.pop_front();
            }
            if (!caller) {
                tell({}, caller.failure().message);
                return;
            }
            judge(work->place, caller->call(work->request, options_.call, stop));
        }
    }

    void judge(OutboxPlace place, const HttpEnd& end) {
        if (const auto* not_sent = std::get_if<HttpNotSent>(&end)) return tell({}, not_sent->reason);
        if (const auto* no_answer = std::get_if<HttpNoAnswer>(&end)) return tell({}, no_answer->reason);
        const auto& answer = std::get<HttpAnswer>(end);
        const int status = answer.status;
        if (status >= 200 && status < 300) {
            const bool replayed = answer.value("Idempotent-Replayed").value_or("") == "true";
            return tell(Receipt{place, replayed ? Receipt::What::duplicate : Receipt::What::confirmed, ""}, "");
        }
        const std::string why = fmt::format("it answered {}", status);
        const bool passes = status == 429 || (status >= 502 && status <= 504);
        // Not what the configuration takes it for: that is about all events.
        const bool about_us = status == 401 || status == 403 || status == 407;
        if (passes || about_us) return tell({}, why);
        tell(Receipt{place, Receipt::What::refused, why}, "");
    }

    void tell(const std::optional<Receipt>& receipt, const std::string& why) {
        const std::lock_guard lock(mutex_);
        if (receipt) came_.push_back(*receipt);
        if (why_.empty()) why_ = why;
        changed_.notify_one();
    }

    HttpOptions options_;
    std::mutex mutex_;
    std::condition_variable_any work_;
    std::condition_variable changed_;
    std::deque<Work> waiting_;  // guarded by mutex_, as are the following
    std::vector<Receipt> came_;
    std::string why_;
    std::size_t on_their_way_ = 0;
    std::vector<std::jthread> workers_;
};

}  // namespace

Result<std::unique_ptr<Publisher>> open_http(const HttpOptions& options) {
    if (auto caller = HttpCaller::open(options.call.tls); !caller) return caller.failure();
    return std::unique_ptr<Publisher>(std::make_unique<HttpPublisher>(options));
}

}  // namespace semel::outbox
