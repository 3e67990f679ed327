// The same work for everyone: note the message's id, add to an account.
#pragma once

#include <libpq-fe.h>

#include <atomic>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "consume/settings.hpp"
#include "semel/consumer.hpp"
#include "tests/consumers/broker.hpp"

namespace semel::bench {

inline constexpr int accounts = 1000;

class Postgres {
public:
    explicit Postgres(const std::string& uri);
    [[nodiscard]] PGconn* raw() const { return connection_.get(); }
    void run(const char* sql) const;
    /// Empties everything.
    void reset() const;

private:
    struct Finish {
        void operator()(PGconn* connection) const { PQfinish(connection); }
    };
    std::unique_ptr<PGconn, Finish> connection_;
};

/// The effect: one UPDATE, by a prepared statement.
void credit(PGconn* connection, int account);

/// Messages of 1 KB, of which the share `duplicates` repeats an earlier id.
std::vector<Message> make_messages(const std::string& broker, int count, int bytes, double duplicates);
/// The account of a message, from its body.
int account_of(std::string_view body);

/// How long the handling took, in seconds, from the first message to the last commit or acknowledgement.
double run_raw(test::Broker& broker, const std::string& topic, int count);
double run_textbook(test::Broker& broker, const std::string& topic, int count, const std::string& uri);
struct SemelRun {
    double seconds = 0;
    ConsumerCounts counts{};
};
/// Of one id in a hundred the handler fails for good.
enum class Poison : std::uint8_t { none, at_once, after_its_write };
/// Until `count` messages have met their fate.
SemelRun run_semel(test::Broker& broker, const std::string& topic, int count, const ConsumeSettings& settings,
                   int lanes, Poison poison = Poison::none);
/// One after the other as they come, until stopped; `done` counts the commits.
void run_textbook_until(test::Broker& broker, const std::string& topic, const std::string& uri,
                        const std::stop_token& stop, std::atomic<std::uint64_t>& done);
void run_semel_until(test::Broker& broker, const std::string& topic, const std::string& uri,
                     const std::stop_token& stop, std::atomic<std::uint64_t>& done);
/// No broker: batches of 256 written by hand. With several connections each has accounts of its own, as lanes do.
double run_batches(int count, const std::string& uri, int connections);

}  // namespace semel::bench
