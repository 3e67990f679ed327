// The memory store: the model that every driver is compared with. Nothing is durable.
#pragma once

#include <functional>
#include <map>
#include <mutex>

#include "semel/store.hpp"

namespace semel {

class MemoryStore final : public Store {
public:
    explicit MemoryStore(std::function<TimePoint()> clock);

    Result<std::unique_ptr<Session>> session() override;
    [[nodiscard]] std::size_t sessions_max() const override { return 1; }
    Result<std::optional<Record>> find(const OperationId& id) override;
    Result<Page> list(const Filter& filter, const std::string& cursor, std::size_t limit) override;
    Result<Swept> sweep(std::size_t limit, bool accept_clock = false) override;
    Result<TimePoint> now() override { return clock_(); }
    [[nodiscard]] std::string text() const override { return "memory:"; }

    /// What a restart of an embedded store does: everything the present owner holds becomes unknown (I5).
    void restart();

private:
    friend class MemorySession;
    Executed execute(std::span<const Group> groups);

    std::function<TimePoint()> clock_;
    std::mutex mutex_;
    std::map<OperationId, Record> records_;  // guarded by mutex_, as are the following
    Token next_token_{1};
    Epoch owner_{1};
    std::optional<TimePoint> last_sweep_;
};

}  // namespace semel
