// One member of a consumer group.
//
// Everything happens on the thread that calls: librdkafka's own threads only fill its queue, and its callbacks run inside
// the polls here. A partition is known from its assignment until it is revoked; with it go its tickets, so that none of a
// former assignment can move the position of a later one. What is committed is never more than what was acknowledged
// during this assignment, without a gap from where it began.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <unordered_map>

#include "consumers/kafka/client.hpp"
#include "consumers/kafka/progress.hpp"
#include "semel/kafka.hpp"

namespace semel::kafka {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using Steady = steady_clock::time_point;

constexpr std::size_t waiting_max = 64;            // records polled while nobody wants any; then the partitions pause
constexpr milliseconds revoke_commit_wait{2'000};  // the group waits for us meanwhile
constexpr milliseconds close_flush_wait{5'000};
constexpr milliseconds probe_wait_min{50};

/// A partition during one assignment.
struct Partition {
    std::string topic{};
    std::int32_t number = 0;
    Progress progress{};
    std::int64_t began = -1;      ///< the first offset that was delivered
    std::int64_t asked = -1;      ///< the position of the last commit
    std::int64_t committed = -1;  ///< what the broker has confirmed
};

/// A record that was polled. It is kept until it is acknowledged, since it may be given back: to read it again would mean
/// to read everything after it again.
struct Record {
    Partition* partition = nullptr;
    MessagePtr record{};
    std::uint32_t deliveries = 0;
};

int to_wait(Duration wait) {
    return static_cast<int>(std::clamp<std::int64_t>(std::chrono::ceil<milliseconds>(wait).count(), 0, 60'000));
}

class KafkaSource final : public Source, private Callbacks {
public:
    explicit KafkaSource(Options options) : options_(std::move(options)) {}
    ~KafkaSource() override { close(); }
    Status start();

    Result<std::vector<Delivery>> fetch(std::size_t limit, Duration wait) override;
    Status acknowledge(std::span<const Ticket> done) override;
    Status flush(Duration wait) override;
    Status give_back(std::span<const Ticket> undone) override;
    Status keep(std::span<const Ticket> working) override;
    [[nodiscard]] Duration keep_every() const override { return Duration{0}; }
    std::vector<Ticket> taken_away() override { return std::exchange(taken_away_, {}); }
    void close() override;
    [[nodiscard]] std::string text() const override;

private:
    using Place = std::pair<std::string, std::int32_t>;

    // callbacks
    void on_rebalance(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t& partitions) override;
    void on_commit(rd_kafka_resp_err_t error, const rd_kafka_topic_partition_list_t* offsets) override;
    void on_error(rd_kafka_resp_err_t error, const std::string& reason) override;
    void assigned(const rd_kafka_topic_partition_list_t& partitions);
    void revoked(const rd_kafka_topic_partition_list_t& partitions);
    void forget(const Partition& partition);
    void forget_work(const Partition& partition);
    // polling
    bool poll(Duration wait);
    void take_error(const rd_kafka_message_t& record);
    void take_waiting(std::size_t limit, std::vector<Delivery>& out);
    void deliver(Record record, std::vector<Delivery>& out);
    void pause();
    void resume();
    // committing
    PartitionsPtr to_commit(bool confirmed) const;
    void commit_if_due();
    Status commit_and_wait(PartitionsPtr offsets, Duration wait);
    // trouble
    bool answers(Duration wait);
    [[nodiscard]] Failure fail(Code code, std::string_view what) const;
    void look_for_missing_topics(Duration wait);

    Options options_;
    ClientPtr client_;
    std::map<Place, Partition> partitions_;
    std::unordered_map<std::uint64_t, Record> working_;  ///< by ticket
    std::deque<Record> given_back_;
    std::deque<Record> waiting_;
    std::vector<Ticket> taken_away_;
    std::uint64_t last_ticket_ = 0;
    bool paused_ = false;
    Steady commit_at_{};
    bool commit_lost_ = false;  ///< a partition went before the broker had its position; told by the next flush

    std::string doubt_;                       ///< why no broker may answer; empty: no doubt
    std::map<std::string, Failure> refused_;  ///< what will not work, by topic; under "" what concerns all of them
    std::deque<Failure> failures_;            ///< to be reported once
};

Status KafkaSource::start() {
    auto client = make_consumer(options_, *this);
    if (!client) return client.failure();
    client_ = std::move(client).value();
    commit_at_ = steady_clock::now() + options_.commit_every;
    return Done{};
}

std::string KafkaSource::text() const { return fmt::format("kafka:{}", fmt::join(options_.topics, ",")); }

Failure KafkaSource::fail(Code code, std::string_view what) const {
    return {code, fmt::format("fetch {} from {}: {}", text(), options_.brokers, what)};
}

// ---- rebalances ------------------------------------------------------------------------------------------------

void KafkaSource::on_rebalance(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t& partitions) {
    // With the eager protocol the list is all there is; with the cooperative one it holds what changes.
    const bool cooperative = std::string_view(rd_kafka_rebalance_protocol(client_.get())) == "COOPERATIVE";
    ErrorPtr error;
    if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        assigned(partitions);
        if (cooperative) {
            error.reset(rd_kafka_incremental_assign(client_.get(), &partitions));
        } else {
            rd_kafka_assign(client_.get(), &partitions);
        }
    } else {
        revoked(partitions);
        if (cooperative && what == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) {
            error.reset(rd_kafka_incremental_unassign(client_.get(), &partitions));
        } else {
            rd_kafka_assign(client_.get(), nullptr);
        }
    }
    if (error)
        failures_.push_back(fail(Code::unavailable, fmt::format("rebalance: {}", rd_kafka_error_string(error.get()))));
}

void KafkaSource::assigned(const rd_kafka_topic_partition_list_t& partitions) {
    for (int at = 0; at < partitions.cnt; ++at) {
        const rd_kafka_topic_partition_t& one = partitions.elems[at];
        const Place place{one.topic, one.partition};
        if (const auto before = partitions_.find(place); before != partitions_.end()) {
            forget(before->second);
            partitions_.erase(before);
        }
        Partition partition;
        partition.topic = one.topic;
        partition.number = one.partition;
        partitions_.emplace(place, std::move(partition));
        refused_.erase(one.topic);
    }
    // An earlier pause of theirs outlives an assignment; if nobody wants records still, the next one pauses all of them.
    resume();
}

void KafkaSource::revoked(const rd_kafka_topic_partition_list_t& partitions) {
    if (paused_) resume();
    // A lost assignment is somebody else's already, and what we have done since may have been done by them, too.
    if (rd_kafka_assignment_lost(client_.get()) == 0)
        static_cast<void>(
            commit_and_wait(to_commit(true), revoke_commit_wait));  // refused: it comes again to its next owner
    for (int at = 0; at < partitions.cnt; ++at) {
        const auto found = partitions_.find({partitions.elems[at].topic, partitions.elems[at].partition});
        if (found == partitions_.end()) continue;
        forget(found->second);
        partitions_.erase(found);
    }
}

void KafkaSource::forget(const Partition& partition) {
    if (partition.progress.position().value_or(-1) > std::max(partition.began, partition.committed))
        commit_lost_ = true;
    forget_work(partition);
    std::erase_if(waiting_, [&](const Record& record) { return record.partition == &partition; });
}

void KafkaSource::forget_work(const Partition& partition) {
    const auto of_it = [&](const Record& record) { return record.partition == &partition; };
    std::erase_if(working_, [&](const auto& ticket_and_record) {
        if (!of_it(ticket_and_record.second)) return false;
        taken_away_.push_back(Ticket{ticket_and_record.first});
        return true;
    });
    std::erase_if(given_back_, of_it);
}

// ---- polling ---------------------------------------------------------------------------------------------------

/// Serves librdkafka, and puts a record that it yields into waiting_. False: none within `wait`, or something else is to
/// be told first.
bool KafkaSource::poll(Duration wait) {
    MessagePtr record(rd_kafka_consumer_poll(client_.get(), to_wait(wait)));
    if (!record) return false;
    if (record->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        take_error(*record);
        return false;
    }
    const auto found = partitions_.find({rd_kafka_topic_name(record->rkt), record->partition});
    if (found == partitions_.end()) return true;  // not ours any more, or not yet: it is not committed either
    waiting_.push_back({&found->second, std::move(record)});
    if (waiting_.size() >= waiting_max) pause();
    return true;
}

void KafkaSource::take_error(const rd_kafka_message_t& record) {
    const std::string topic = record.rkt != nullptr ? rd_kafka_topic_name(record.rkt) : "";
    switch (static_cast<int>(record.err)) {  // as a number: there are two hundred others
        case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
        case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
        case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION:
            refused_.insert_or_assign(topic, fail(Code::invalid, fmt::format("there is no topic {} (topics)", topic)));
            break;
        case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
            refused_.insert_or_assign(
                topic, fail(Code::invalid, fmt::format("access to topic {} is refused (settings: sasl…)", topic)));
            break;
        case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
            break;  // the assignment is lost, and we shall join again with this poll
        default: on_error(record.err, rd_kafka_message_errstr(&record)); break;
    }
}

void KafkaSource::on_error(rd_kafka_resp_err_t error, const std::string& reason) {
    switch (static_cast<int>(error)) {
        // One of several brokers, or all: ALL_BROKERS_DOWN does not come for each outage, since a broker from `brokers`
        // that was not needed after the first connection counts as one that may be up.
        case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
        case RD_KAFKA_RESP_ERR__TRANSPORT:
        case RD_KAFKA_RESP_ERR__RESOLVE:
        case RD_KAFKA_RESP_ERR__TIMED_OUT: doubt_ = reason; break;
        case RD_KAFKA_RESP_ERR__AUTHENTICATION:
        case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
        case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
            failures_.push_back(fail(Code::invalid, fmt::format("{} (settings: sasl…)", reason)));
            break;
        case RD_KAFKA_RESP_ERR__SSL:
            failures_.push_back(fail(Code::invalid, fmt::format("{} (settings: ssl…, security.protocol)", reason)));
            break;
        case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
        case RD_KAFKA_RESP_ERR_INVALID_GROUP_ID:
        case RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL:
            failures_.push_back(
                fail(Code::invalid,
                     fmt::format("{} (group {}, settings: partition.assignment.strategy)", reason, options_.group)));
            break;
        case RD_KAFKA_RESP_ERR__FATAL: {
            std::array<char, 512> why{};
            const auto fatal = rd_kafka_fatal_error(client_.get(), why.data(), why.size());
            refused_.insert_or_assign("", fail(Code::invalid, fmt::format("{}: {} (settings: group.instance.id)",
                                                                          rd_kafka_err2name(fatal), why.data())));
            break;
        }
        default: failures_.push_back(fail(Code::unavailable, reason)); break;
    }
}

void KafkaSource::take_waiting(std::size_t limit, std::vector<Delivery>& out) {
    while (out.size() < limit && !given_back_.empty()) {
        Record record = std::move(given_back_.front());
        given_back_.pop_front();
        deliver(std::move(record), out);
    }
    while (out.size() < limit && !waiting_.empty()) {
        Record record = std::move(waiting_.front());
        waiting_.pop_front();
        Partition& partition = *record.partition;
        if (partition.began < 0) partition.began = record.record->offset;
        if (!partition.progress.begin(record.record->offset)) {
            // The topic was removed and made again, or its log cut: what we had is of no meaning there.
            forget_work(partition);
            partition.progress = Progress{};
            partition.asked = partition.committed = -1;
            partition.began = record.record->offset;
            partition.progress.begin(record.record->offset);
        }
        deliver(std::move(record), out);
    }
    if (paused_ && limit > 0 && waiting_.empty()) resume();
}

void KafkaSource::deliver(Record record, std::vector<Delivery>& out) {
    const Ticket ticket{++last_ticket_};
    Message message = to_message(*record.record);
    message.deliveries = ++record.deliveries;
    out.push_back({ticket, std::move(message)});
    working_.emplace(ticket.value, std::move(record));
}

void KafkaSource::pause() {
    if (paused_) return;
    PartitionsPtr all(rd_kafka_topic_partition_list_new(static_cast<int>(partitions_.size())));
    for (const auto& [place, partition] : partitions_)
        rd_kafka_topic_partition_list_add(all.get(), place.first.c_str(), place.second);
    rd_kafka_pause_partitions(client_.get(), all.get());
    paused_ = true;
}

void KafkaSource::resume() {
    PartitionsPtr all(rd_kafka_topic_partition_list_new(static_cast<int>(partitions_.size())));
    for (const auto& [place, partition] : partitions_)
        rd_kafka_topic_partition_list_add(all.get(), place.first.c_str(), place.second);
    rd_kafka_resume_partitions(client_.get(), all.get());
    paused_ = false;
}

// ---- committing ------------------------------------------------------------------------------------------------

/// The positions that the broker does not know yet: has not confirmed, or was not even told.
PartitionsPtr KafkaSource::to_commit(bool confirmed) const {
    PartitionsPtr offsets(rd_kafka_topic_partition_list_new(static_cast<int>(partitions_.size())));
    for (const auto& [place, partition] : partitions_) {
        const auto position = partition.progress.position();
        if (!position || *position == (confirmed ? partition.committed : partition.asked)) continue;
        rd_kafka_topic_partition_list_add(offsets.get(), place.first.c_str(), place.second)->offset = *position;
    }
    return offsets;
}

void KafkaSource::commit_if_due() {
    const Steady now = steady_clock::now();
    if (now < commit_at_) return;
    commit_at_ = now + options_.commit_every;
    const PartitionsPtr offsets = to_commit(false);
    if (offsets->cnt == 0) return;
    if (rd_kafka_commit(client_.get(), offsets.get(), 1) != RD_KAFKA_RESP_ERR_NO_ERROR) return;  // again when it is due
    for (int at = 0; at < offsets->cnt; ++at) {
        const rd_kafka_topic_partition_t& one = offsets->elems[at];
        partitions_.at({one.topic, one.partition}).asked = one.offset;
    }
}

/// What came of a commit. A position that was refused is committed again when the next one is due.
void KafkaSource::on_commit(rd_kafka_resp_err_t error, const rd_kafka_topic_partition_list_t* offsets) {
    if (offsets == nullptr) return;
    for (int at = 0; at < offsets->cnt; ++at) {
        const rd_kafka_topic_partition_t& one = offsets->elems[at];
        const auto found = partitions_.find({one.topic, one.partition});
        if (found == partitions_.end()) continue;
        if (error == RD_KAFKA_RESP_ERR_NO_ERROR && one.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            found->second.committed = one.offset;
        } else {
            found->second.asked = found->second.committed;
        }
    }
}

Status KafkaSource::commit_and_wait(PartitionsPtr offsets, Duration wait) {
    if (offsets->cnt == 0) return Done{};
    const QueuePtr queue(rd_kafka_queue_new(client_.get()));
    const auto sent = rd_kafka_commit_queue(client_.get(), offsets.get(), queue.get(), nullptr, nullptr);
    const auto failed = [&](std::string_view why) {
        return Failure{Code::unavailable, fmt::format("commit {} to {}: {}", text(), options_.brokers, why)};
    };
    if (sent != RD_KAFKA_RESP_ERR_NO_ERROR) return failed(rd_kafka_err2str(sent));
    const EventPtr event(rd_kafka_queue_poll(queue.get(), to_wait(wait)));
    if (!event) return failed(fmt::format("no reply in {} ms", wait.count() / 1000));
    const rd_kafka_topic_partition_list_t* done = rd_kafka_event_topic_partition_list(event.get());
    on_commit(rd_kafka_event_error(event.get()), done);
    if (rd_kafka_event_error(event.get()) != RD_KAFKA_RESP_ERR_NO_ERROR)
        return failed(rd_kafka_event_error_string(event.get()));
    for (int at = 0; done != nullptr && at < done->cnt; ++at) {
        if (done->elems[at].err != RD_KAFKA_RESP_ERR_NO_ERROR) return failed(rd_kafka_err2str(done->elems[at].err));
    }
    return Done{};
}

// ---- trouble ---------------------------------------------------------------------------------------------------

/// Whether any broker answers, asked of it: librdkafka tells when one went down, but not when it came back.
bool KafkaSource::answers(Duration wait) {
    const rd_kafka_metadata_t* metadata = nullptr;
    const auto error =
        rd_kafka_metadata(client_.get(), 0, nullptr, &metadata, to_wait(std::max<Duration>(wait, probe_wait_min)));
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return false;
    rd_kafka_metadata_destroy(metadata);
    doubt_.clear();
    return true;
}

/// A topic that was made in the meantime may be assigned to other members only, so it is looked for.
void KafkaSource::look_for_missing_topics(Duration wait) {
    const rd_kafka_metadata_t* metadata = nullptr;
    if (rd_kafka_metadata(client_.get(), 1, nullptr, &metadata, to_wait(std::max<Duration>(wait, probe_wait_min))) !=
        RD_KAFKA_RESP_ERR_NO_ERROR)
        return;
    for (int at = 0; at < metadata->topic_cnt; ++at) {
        if (metadata->topics[at].err == RD_KAFKA_RESP_ERR_NO_ERROR) refused_.erase(metadata->topics[at].topic);
    }
    rd_kafka_metadata_destroy(metadata);
}

// ---- the interface ---------------------------------------------------------------------------------------------

Result<std::vector<Delivery>> KafkaSource::fetch(std::size_t limit, Duration wait) {
    if (!client_) return fail(Code::invalid, "the source is closed");
    const Steady deadline = steady_clock::now() + wait;
    const auto left = [&] {
        return std::max(Duration{0}, std::chrono::ceil<Duration>(deadline - steady_clock::now()));
    };
    commit_if_due();
    if (!refused_.empty()) look_for_missing_topics(left());

    std::vector<Delivery> out;
    for (bool polled = false;; polled = true) {
        take_waiting(limit, out);
        const bool full = limit > 0 && out.size() >= limit;
        if (polled && (full || (limit == 0 && left() == Duration{0}))) break;
        // In doubt what was read ahead comes first, and then the question whether anybody is there.
        const bool may_wait = out.empty() && refused_.empty() && doubt_.empty();
        if (poll(may_wait ? left() : Duration{0})) continue;
        if (!out.empty() || !refused_.empty() || !failures_.empty()) break;
        if (!doubt_.empty() && !answers(left())) break;
        if (left() == Duration{0}) break;
    }
    if (!out.empty()) return out;
    if (!failures_.empty()) {
        Failure failure = std::move(failures_.front());
        failures_.pop_front();
        return failure;
    }
    if (!refused_.empty()) return refused_.begin()->second;
    if (!doubt_.empty()) return fail(Code::unavailable, fmt::format("{} (brokers)", doubt_));
    return out;
}

Status KafkaSource::acknowledge(std::span<const Ticket> done) {
    for (const Ticket ticket : done) {
        const auto found = working_.find(ticket.value);
        if (found == working_.end()) continue;
        found->second.partition->progress.finish(found->second.record->offset);
        working_.erase(found);
    }
    if (client_) commit_if_due();
    return Done{};
}

Status KafkaSource::flush(Duration wait) {
    if (!client_) return Done{};
    auto committed = commit_and_wait(to_commit(true), wait);
    if (std::exchange(commit_lost_, false) && committed.ok())
        return Failure{
            Code::unavailable,
            fmt::format("commit {} to {}: partitions were revoked first; what was acknowledged of them comes again",
                        text(), options_.brokers)};
    return committed;
}

Status KafkaSource::give_back(std::span<const Ticket> undone) {
    std::vector<Ticket> in_order(undone.begin(), undone.end());
    std::ranges::sort(in_order);
    for (const Ticket ticket : in_order) {
        const auto found = working_.find(ticket.value);
        if (found == working_.end()) continue;
        given_back_.push_back(std::move(found->second));
        working_.erase(found);
    }
    return Done{};
}

Status KafkaSource::keep(std::span<const Ticket>) {
    if (client_) poll(Duration{0});
    return Done{};
}

void KafkaSource::close() {
    if (!client_) return;
    static_cast<void>(flush(close_flush_wait));  // refused: it comes again to whoever is next
    rd_kafka_consumer_close(client_.get());
    working_.clear();
    given_back_.clear();
    waiting_.clear();
    partitions_.clear();
    taken_away_.clear();
    client_.reset();
}

}  // namespace

Result<std::unique_ptr<Source>> open(Options options) {
    auto source = std::make_unique<KafkaSource>(std::move(options));
    if (auto started = source->start(); !started) return started.failure();
    return std::unique_ptr<Source>(std::move(source));
}

}  // namespace semel::kafka
