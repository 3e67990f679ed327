// A wallet that takes credits from a broker and books each of them once, however often it is delivered.
//
//     wallet kafka    127.0.0.1:9092                   sqlite:wallet.db
//     wallet rabbitmq amqp://guest:guest@127.0.0.1/    sqlite:wallet.db
//     wallet nats     nats://127.0.0.1:4222            postgres://user@127.0.0.1/wallet
//     wallet redis    redis://127.0.0.1:6379           postgres://user@127.0.0.1/wallet
//
// A credit is a CloudEvent whose data is {"account": "alice", "amount": 25}. SIGTERM or Ctrl-C ends it in order.
#include <semel/consumer.hpp>
#include <semel/kafka.hpp>
#include <semel/nats.hpp>
#include <semel/postgres.hpp>
#include <semel/rabbitmq.hpp>
#include <semel/redis.hpp>
#include <semel/sqlite.hpp>

#include <libpq-fe.h>
#include <signal.h>
#include <simdjson.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

// ---- what the wallet does --------------------------------------------------------------------------------------

/// One statement in the open transaction of either database. Throws if it fails.
void run(semel::Transaction transaction, const char* sql, const std::vector<std::string>& parameters = {}) {
    if (transaction.postgres != nullptr) {
        std::vector<const char*> values;
        for (const std::string& parameter : parameters) values.push_back(parameter.c_str());
        PGresult* result = PQexecParams(transaction.postgres, sql, static_cast<int>(values.size()), nullptr,
                                        values.data(), nullptr, nullptr, 0);
        const bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
        PQclear(result);
        if (!done) throw std::runtime_error(PQerrorMessage(transaction.postgres));
    } else {
        sqlite3_stmt* statement = nullptr;
        sqlite3_prepare_v2(transaction.sqlite, sql, -1, &statement, nullptr);
        for (int i = 0; i < static_cast<int>(parameters.size()); ++i)
            sqlite3_bind_text(statement, i + 1, parameters[i].data(), static_cast<int>(parameters[i].size()), nullptr);
        const bool done = sqlite3_step(statement) == SQLITE_DONE;
        sqlite3_finalize(statement);
        if (!done) throw std::runtime_error(sqlite3_errmsg(transaction.sqlite));
    }
}

void make_tables(semel::Transaction transaction) {
    run(transaction, "create table if not exists account (name text primary key, balance bigint not null)");
    run(transaction,
        "create table if not exists entry (event text not null, account text not null, amount bigint not null, "
        "balance_before bigint not null)");
}

struct Credit {
    std::string account{};
    std::int64_t amount = 0;
};

Credit read_credit(const semel::Event& event) {
    Credit credit;
    try {
        simdjson::ondemand::parser parser;
        const simdjson::padded_string text(event.data);
        auto data = parser.iterate(text);
        credit.account = std::string(std::string_view(data["account"]));
        credit.amount = data["amount"];
    } catch (const simdjson::simdjson_error& error) {
        throw semel::Reject(error.what());  // no further try can help: it goes to the dead letters
    }
    if (credit.account.empty() || credit.account.find('\0') != std::string::npos || credit.amount <= 0)
        throw semel::Reject("a credit has an account and an amount above zero");
    return credit;
}

/// Books one credit, in work.transaction and nowhere else: its writes commit together with the note that this event was
/// applied. It may be run again for the same event; only one run is committed. What it throws fails this event alone.
void book(semel::Work& work) {
    const Credit credit = read_credit(work.event);
    const std::string amount = std::to_string(credit.amount);
    run(work.transaction,
        "insert into account (name, balance) values ($1, $2) "
        "on conflict (name) do update set balance = account.balance + excluded.balance",
        {credit.account, amount});
    run(work.transaction,
        "insert into entry (event, account, amount, balance_before) "
        "select $1, name, cast($2 as bigint), balance - cast($2 as bigint) from account where name = $3",
        {work.event.id, amount, credit.account});
}

// ---- where credits come from and go to -------------------------------------------------------------------------

/// For starting up: what is there, or the end of the program.
template <class T>
T must(semel::Result<T> result) {
    if (!result) {
        std::cerr << result.failure().message << "\n";
        std::exit(1);
    }
    return std::move(*result);
}

semel::Result<std::unique_ptr<semel::Source>> open_source(std::string_view broker, const std::string& address) {
    if (broker == "kafka") return semel::kafka::open({.brokers = address, .group = "wallet", .topics = {"credits"}});
    if (broker == "rabbitmq") return semel::rabbitmq::open({.url = address, .queue = "credits"});
    if (broker == "nats") return semel::nats::open({.url = address, .stream = "credits", .durable = "wallet"});
    if (broker == "redis") return semel::redis::open({.url = address, .stream = "credits", .group = "wallet"});
    return semel::Failure{semel::Code::invalid, "the broker is kafka, rabbitmq, nats or redis"};
}

/// The wallet's own database, with the tables of both.
std::unique_ptr<semel::Inbox> open_database(const std::string& url) {
    std::unique_ptr<semel::Inbox> inbox;
    if (url.starts_with("sqlite:")) {
        inbox = must(semel::sqlite::open_inbox({.path = url.substr(7)}));
    } else {
        must(semel::postgres::migrate({.uri = url}));
        inbox = must(semel::postgres::open_inbox({.uri = url}));
    }
    must(inbox->begin());
    make_tables(inbox->transaction());
    must(inbox->commit());
    return inbox;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) {
        std::cerr << "usage: wallet kafka|rabbitmq|nats|redis ADDRESS sqlite:FILE|postgres://…\n";
        return 2;
    }
    // Before anything starts a thread: these are for sigwait below.
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);

    semel::ConsumerOptions options;
    options.name = "wallet";  // part of the identity of everything it has done: never reuse, never rename
    options.log = [](std::string_view line) { std::cerr << line << "\n"; };
    const auto consumer =
        must(semel::Consumer::make(options, must(open_source(argv[1], argv[2])), open_database(argv[3]), book));

    int exit_code = 0;
    std::jthread worker([&](const std::stop_token& stop) {
        if (auto ended = consumer->run(stop); !ended) {
            std::cerr << ended.failure().message << "\n";
            exit_code = 1;
        }
        kill(getpid(), SIGTERM);  // if it has ended by itself: sigwait shall know
    });
    int received = 0;
    sigwait(&signals, &received);
    worker.request_stop();
    worker.join();

    const semel::ConsumerCounts counts = consumer->counts();
    std::cout << counts.applied << " credits booked, " << counts.duplicates << " duplicates absorbed, " << counts.dead
              << " dead letters\n";
    return exit_code;
}
