// The message loop, for consumers and for the relay.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "consumers/engine.hpp"
#include "consumers/group.hpp"
#include "consumers/leased.hpp"
#include "semel/consumer.hpp"

namespace semel {

/// Whether a consumer can work like this; `invalid` names the option that is wrong.
Status check(const ConsumerOptions& options);

class Loop {
public:
    Loop(ConsumerOptions options, std::unique_ptr<Source> source);
    ~Loop();

    /// Messages of one ordering key keep to one lane also where none of them waits for another.
    void keep_keys_together() { keys_together_ = true; }
    /// One worker; at least one is needed before `run`. Messages with the same ordering key go to the same lane.
    void add_lane(std::unique_ptr<Inbox> inbox, std::unique_ptr<Engine> engine);
    /// Lanes take single messages, not batches.
    void one_at_a_time() { parcels_max_ = 1; }

    Status run(const std::stop_token& stop);
    [[nodiscard]] ConsumerCounts counts() const;
    [[nodiscard]] const ConsumerOptions& options() const { return options_; }

private:
    class Lane;

    [[nodiscard]] std::size_t in_flight_max() const;
    void hand_out(std::vector<Delivery> deliveries);
    std::size_t least_loaded(const std::vector<std::vector<Delivery>>& by_lane);
    void acknowledge();
    void keep();
    void drop_taken_away();
    void wait_for_done(Duration wait, const std::stop_token& stop);
    bool flush(Duration wait);
    void stop_lanes();

    // For lanes; thread safe.
    /// Whether it waits behind a message of its ordering key that has to be tried again.
    [[nodiscard]] bool is_bound(const Message& message) const {
        return options_.retries.hold_order && !message.ordering_key.empty();
    }
    /// Whether it goes to the lane of its ordering key, and stays there.
    [[nodiscard]] bool has_its_lane(const Message& message) const {
        return is_bound(message) || (keys_together_ && !message.ordering_key.empty());
    }
    void done(std::size_t lane, const std::vector<Ticket>& tickets, TimePoint began);
    Status note_progress(std::size_t lane, Inbox& inbox, TimePoint now);
    void complain(const Failure& failure);
    void doubt();
    void count(const Item& item);
    void lost(std::size_t messages) { lost_ += messages; }
    [[nodiscard]] Duration shelf_soon() const;

    ConsumerOptions options_;
    std::unique_ptr<Source> source_;
    std::string member_;
    bool keys_together_ = false;
    std::size_t parcels_max_;
    std::vector<std::unique_ptr<Lane>> lanes_;

    // Of the pump.
    std::map<Ticket, TimePoint> working_;  // handed out, when, and not reported
    std::chrono::steady_clock::time_point done_at_{};
    std::size_t next_lane_ = 0;
    std::chrono::steady_clock::time_point keep_at_{};
    std::chrono::steady_clock::time_point flush_at_{};
    Duration fetch_backoff_ = std::chrono::milliseconds{50};

    std::mutex mutex_;
    std::condition_variable done_wake_;
    std::vector<Ticket> done_;              // guarded by mutex_, as are the following
    std::vector<TimePoint> began_;          // by lane: whatever it settles and has not reported was settled later
    TimePoint progress_{};                  // whatever was settled earlier is acknowledged for sure
    std::optional<TimePoint> candidate_{};  // for it
    std::chrono::steady_clock::time_point doubt_until_{};
    TimePoint since_{};
    bool joined_ = false;

    std::mutex log_mutex_;
    std::string last_complaint_;  // guarded by log_mutex_, as is the following
    std::chrono::steady_clock::time_point complain_again_{};

    std::atomic<std::uint64_t> received_ = 0, applied_ = 0, duplicates_ = 0, stale_ = 0, held_ = 0, behind_ = 0,
                               failed_ = 0, dead_ = 0, lost_ = 0, batches_ = 0;
};

}  // namespace semel
