#include "fill_letters.hpp"

#include <cstdio>

#include "consumers/dead_letters.hpp"
#include "consumers/group.hpp"
#include "consumers/in_transaction.hpp"
#include "consumers/shelf.hpp"
#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"

namespace semel {
namespace {

Result<std::unique_ptr<Inbox>> open(const std::string& url) {
    if (url.starts_with("sqlite:")) {
        sqlite::Options options;
        options.path = url.substr(7);
        return sqlite::open_inbox(std::move(options));
    }
    postgres::Options options;
    options.uri = url;
    return postgres::open_inbox(std::move(options));
}

DeadLetter letter_of(const char* consumer, DeadReason reason, const char* key, TimePoint now) {
    DeadLetter letter;
    letter.consumer = consumer;
    letter.operation = Operation{Scope::make("acme", consumer).value(), Key::parse(key).value()};
    letter.reason = name(reason);
    letter.error = "the warehouse says no";
    letter.tries = 10;
    letter.at = now - std::chrono::minutes{5};
    letter.message.topic = consumer;
    letter.message.ordering_key = "customer-7";
    letter.message.content_type = "application/json";
    letter.message.headers = {{"ce_id", key}, {"ce_type", "order.placed"}};
    letter.message.body = R"({"card": "4242"})";
    letter.message.position = std::string(consumer) + "/3@" + key;
    letter.message.published = now - std::chrono::minutes{6};
    return letter;
}

void bury_all(Inbox& inbox, TimePoint now) {
    DeadLetter unreadable = letter_of("orders", DeadReason::unreadable, "evt-2", now);
    unreadable.operation.reset();
    unreadable.tries = 1;
    unreadable.message.headers.push_back({"odd", "\x1b[2J\xff"});
    unreadable.message.body = std::string("\0\xff", 2) + std::string(40, 'x');
    const DeadLetter letters[] = {letter_of("orders", DeadReason::tries_exhausted, "evt-1", now), unreadable,
                                  letter_of("payments", DeadReason::outcome_unknown, "evt 3", now),
                                  letter_of("orders", DeadReason::tries_exhausted, "evt-4", now),
                                  letter_of("orders", DeadReason::rejected, "evt-5", now)};
    for (const DeadLetter& letter : letters) bury(inbox, letter);
}

Status fill(Inbox& inbox, TimePoint now) {
    for (const char* consumer : {"orders", "payments", "shelved", "gone"}) {
        const SqlValue name[] = {std::string(consumer)};
        inbox.tell("insert into semel.consumer (name) values ($1) on conflict (name) do nothing", name);
    }
    bury_all(inbox, now);
    for (const bool held : {false, true, true}) {
        const Shelved shelved{.aggregate = "=a", .sequence = 3, .held = held, .ready_at = now, .first_at = now};
        Shelf(inbox, "shelved").put(shelved);
    }
    for (const char* member : {"m1", "m2"}) {
        const TimePoint progress = now - std::chrono::hours{2};
        if (auto noted = note_progress(inbox, "gone", member, progress, now, now); !noted) return noted;
    }
    return Done{};
}

}  // namespace

int fill_letters(const std::string& url) {
    auto inbox = open(url);
    Status done =
        inbox ? in_transaction(**inbox, [&](TimePoint now) { return fill(**inbox, now); }) : Status{inbox.failure()};
    if (done) return 0;
    std::fprintf(stderr, "cli_fill_ledger: %s\n", done.failure().message.c_str());
    return 1;
}

}  // namespace semel
