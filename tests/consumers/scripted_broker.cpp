#include "scripted_broker.hpp"

#include <thread>

namespace semel::test {

class ScriptedBroker::ScriptedSource final : public Source {
public:
    explicit ScriptedSource(ScriptedBroker& broker) : broker_(broker) {}

    Result<std::vector<Delivery>> fetch(std::size_t limit, Duration wait) override {
        const auto deadline = std::chrono::steady_clock::now() + wait;
        while (true) {
            {
                const std::lock_guard lock(broker_.mutex_);
                if (broker_.failures_ > 0) {
                    --broker_.failures_;
                    return Failure{broker_.failure_code_, "the scripted broker is away"};
                }
                std::vector<Delivery> out;
                while (!broker_.waiting_.empty() && out.size() < limit) {
                    const Ticket ticket{++broker_.ticket_};
                    out.push_back({ticket, broker_.waiting_.front()});
                    broker_.out_.emplace(ticket, std::move(broker_.waiting_.front()));
                    broker_.waiting_.pop_front();
                }
                if (!out.empty()) return out;
            }
            if (std::chrono::steady_clock::now() >= deadline) return std::vector<Delivery>{};
            std::this_thread::sleep_for(std::chrono::milliseconds{1});
        }
    }
    Status acknowledge(std::span<const Ticket> done) override {
        const std::lock_guard lock(broker_.mutex_);
        if (broker_.deaf_) return Done{};
        for (const Ticket& ticket : done) broker_.acknowledged_ += broker_.out_.erase(ticket);
        return Done{};
    }
    Status flush(Duration) override {
        const std::lock_guard lock(broker_.mutex_);
        if (broker_.deaf_) return Failure{Code::unavailable, "the scripted broker does not listen"};
        return Done{};
    }
    Status give_back(std::span<const Ticket> undone) override {
        const std::lock_guard lock(broker_.mutex_);
        for (const Ticket& ticket : undone) {
            const auto at = broker_.out_.find(ticket);
            if (at == broker_.out_.end()) continue;
            broker_.waiting_.push_back(std::move(at->second));
            broker_.out_.erase(at);
        }
        return Done{};
    }
    Status keep(std::span<const Ticket> working) override {
        const std::lock_guard lock(broker_.mutex_);
        if (!working.empty()) ++broker_.kept_;
        return Done{};
    }
    [[nodiscard]] Duration keep_every() const override { return std::chrono::milliseconds{20}; }
    std::vector<Ticket> taken_away() override {
        const std::lock_guard lock(broker_.mutex_);
        return std::exchange(broker_.gone_, {});
    }
    void close() override {}
    [[nodiscard]] std::string text() const override { return "script"; }

private:
    ScriptedBroker& broker_;
};

std::unique_ptr<Source> ScriptedBroker::open() { return std::make_unique<ScriptedSource>(*this); }

}  // namespace semel::test
