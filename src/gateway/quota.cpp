#include "gateway/quota.hpp"

#include <algorithm>

#include "base/assert.hpp"

namespace semel::gateway {
namespace {

/// Nobody knows when an operation ends.
constexpr Duration open_retry_after = std::chrono::seconds{1};

struct Name {
    std::string tenant;
    std::string route;
};
using NameView = std::pair<std::string_view, std::string_view>;

NameView view_of(const NameView& name) { return name; }
NameView view_of(const Name& name) { return {name.tenant, name.route}; }

struct NameHash {
    using is_transparent = void;
    std::size_t operator()(const auto& name) const {
        const auto [tenant, route] = view_of(name);
        return std::hash<std::string_view>{}(tenant)*31 + std::hash<std::string_view>{}(route);
    }
};
struct NameEqual {
    using is_transparent = void;
    bool operator()(const auto& a, const auto& b) const { return view_of(a) == view_of(b); }
};

}  // namespace

// Counts of one tenant on one route. All guarded by the shard's mutex.
struct Quotas::Entry {
    const Name* name = nullptr;        // the map's
    std::list<Entry*>::iterator used;  // its place in the order of use
    std::size_t open = 0;              // tickets out there: as long as there are any, the entry stays
    std::int64_t window = 0;           // the number of the window that `now_new` counts, since the clock's beginning
    std::size_t now_new = 0;
    std::size_t before_new = 0;  // of the window before it
    std::int64_t length = 0;     // of a window, in microseconds; another one in the configuration starts anew

    void roll(std::int64_t now, std::int64_t window_length) {
        const std::int64_t current = now / window_length;
        if (length != window_length || current > window + 1) {
            now_new = before_new = 0;
        } else if (current == window + 1) {
            before_new = std::exchange(now_new, 0);
        }
        length = window_length;
        window = current;
    }

    /// Zero: there is room for one more.
    [[nodiscard]] std::int64_t wait_for_new(std::size_t new_max, std::int64_t now) const;

    void give_back(std::int64_t counted_in) {
        if (counted_in == window && now_new > 0) --now_new;
        if (counted_in == window - 1 && before_new > 0) --before_new;
    }

    [[nodiscard]] bool forgotten(std::int64_t now) const { return open == 0 && now / length > window + 1; }
};

struct Quotas::Shard {
    std::mutex mutex;
    std::unordered_map<Name, Entry, NameHash, NameEqual> entries;  // guarded by mutex
    std::list<Entry*> order;                                       // guarded by mutex; the least recently used first

    void forget(Entry& entry) {
        order.erase(entry.used);
        entries.erase(entries.find(view_of(*entry.name)));
    }
    void make_room(std::size_t entries_max, std::int64_t now);
    Entry& entry_of(std::string_view tenant, std::string_view route, std::size_t entries_max, std::int64_t now);
};

// With `length` per window and n of `before_new` in view, where n = before_new * (length - elapsed) / length, one more is
// admitted if n + now_new + 1 <= new_max. The wait is until that holds, in this window or in the next one.
std::int64_t Quotas::Entry::wait_for_new(std::size_t new_max, std::int64_t now) const {
    const auto elapsed_when_room = [&](std::size_t before, std::size_t current) -> std::int64_t {
        if (current + 1 > new_max) return length;  // not in this window
        const std::size_t room = new_max - current - 1;
        if (before <= room) return 0;
        const auto part = static_cast<double>(room) / static_cast<double>(before);
        return length - static_cast<std::int64_t>(part * static_cast<double>(length));
    };
    const std::int64_t elapsed = now % length;
    const std::int64_t in_this = elapsed_when_room(before_new, now_new);
    if (in_this <= elapsed) return 0;
    if (in_this < length) return in_this - elapsed;
    return length - elapsed + std::min(elapsed_when_room(now_new, 0), length);
}

void Quotas::Shard::make_room(std::size_t entries_max, std::int64_t now) {
    while (!order.empty() && order.front()->forgotten(now)) forget(*order.front());
    if (entries.size() < entries_max) return;
    const auto idle = std::ranges::find(order, std::size_t{0}, &Entry::open);
    if (idle != order.end()) forget(**idle);
}

Quotas::Entry& Quotas::Shard::entry_of(std::string_view tenant, std::string_view route, std::size_t entries_max,
                                       std::int64_t now) {
    const auto found = entries.find(NameView(tenant, route));
    if (found != entries.end()) {
        order.splice(order.end(), order, found->second.used);
        return found->second;
    }
    make_room(entries_max, now);
    const auto made = entries.emplace(Name{std::string(tenant), std::string(route)}, Entry{}).first;
    Entry& entry = made->second;
    entry.name = &made->first;
    entry.used = order.insert(order.end(), &entry);
    return entry;
}

Quotas::Quotas(const Clock& clock, std::size_t entries_max)
    : clock_(clock), shard_entries_max_(std::max<std::size_t>(entries_max / shards, 1)) {
    for (auto& shard : shards_) shard = std::make_unique<Shard>();
}

Quotas::~Quotas() = default;

Quotas::Shard& Quotas::shard_of(std::string_view tenant, std::string_view route) {
    return *shards_.at(NameHash{}(NameView(tenant, route)) / 64 % shards);
}

Quotas::Answer Quotas::admit(std::string_view tenant, std::string_view route, const Quota& quota) {
    if (quota.new_keys_max == 0 && quota.open_max == 0) return Ticket();
    SEMEL_ASSERT(quota.window > Duration{0}, "a quota's window is longer than nothing");
    const std::int64_t now = std::chrono::floor<Duration>(clock_.steady().time_since_epoch()).count();
    Shard& shard = shard_of(tenant, route);
    const std::lock_guard lock(shard.mutex);
    Entry& entry = shard.entry_of(tenant, route, shard_entries_max_, now);
    entry.roll(now, quota.window.count());
    if (quota.open_max != 0 && entry.open >= quota.open_max) return Refused{open_retry_after};
    if (quota.new_keys_max != 0)
        if (const std::int64_t wait = entry.wait_for_new(quota.new_keys_max, now); wait > 0)
            return Refused{Duration{wait}};
    ++entry.open;
    ++entry.now_new;
    return Ticket(shard, entry, entry.window);
}

std::size_t Quotas::entries() const {
    std::size_t sum = 0;
    for (const auto& shard : shards_) {
        const std::lock_guard lock(shard->mutex);
        sum += shard->entries.size();
    }
    return sum;
}

Quotas::Ticket& Quotas::Ticket::operator=(Ticket&& other) noexcept {
    if (this == &other) return *this;
    end();
    shard_ = std::exchange(other.shard_, nullptr);
    entry_ = other.entry_;
    window_ = other.window_;
    return *this;
}

void Quotas::Ticket::not_new() {
    if (shard_ == nullptr || window_ < 0) return;
    const std::lock_guard lock(shard_->mutex);
    entry_->give_back(std::exchange(window_, -1));
}

void Quotas::Ticket::end() {
    if (shard_ == nullptr) return;
    const std::lock_guard lock(shard_->mutex);
    --entry_->open;
    shard_ = nullptr;
}

}  // namespace semel::gateway
