// Handles of librdkafka, and a consumer made of our settings.
#pragma once

#include <librdkafka/rdkafka.h>

#include <memory>
#include <string>

#include "semel/kafka.hpp"

namespace semel::kafka {

template <auto free>
struct Free {
    void operator()(auto* handle) const { free(handle); }
};
using ConfigPtr = std::unique_ptr<rd_kafka_conf_t, Free<rd_kafka_conf_destroy>>;
using MessagePtr = std::unique_ptr<rd_kafka_message_t, Free<rd_kafka_message_destroy>>;
using PartitionsPtr = std::unique_ptr<rd_kafka_topic_partition_list_t, Free<rd_kafka_topic_partition_list_destroy>>;
using QueuePtr = std::unique_ptr<rd_kafka_queue_t, Free<rd_kafka_queue_destroy>>;
using EventPtr = std::unique_ptr<rd_kafka_event_t, Free<rd_kafka_event_destroy>>;
using ErrorPtr = std::unique_ptr<rd_kafka_error_t, Free<rd_kafka_error_destroy>>;

struct EndClient {
    void operator()(rd_kafka_t* client) const { rd_kafka_destroy(client); }
};
using ClientPtr = std::unique_ptr<rd_kafka_t, EndClient>;

/// Whom librdkafka calls, from within rd_kafka_consumer_poll and rd_kafka_consumer_close, on the thread that called those.
class Callbacks {
public:
    virtual void on_rebalance(rd_kafka_resp_err_t what, rd_kafka_topic_partition_list_t& partitions) = 0;
    virtual void on_commit(rd_kafka_resp_err_t error, const rd_kafka_topic_partition_list_t* offsets) = 0;
    virtual void on_error(rd_kafka_resp_err_t error, const std::string& reason) = 0;

protected:
    ~Callbacks() = default;
};

/// A consumer that is subscribed. `callbacks` has to outlive it.
/// `invalid` names the setting that is missing, not ours to take, or refused by librdkafka.
Result<ClientPtr> make_consumer(const Options& options, Callbacks& callbacks);

/// The record as a message.
Message to_message(const rd_kafka_message_t& record);

}  // namespace semel::kafka
