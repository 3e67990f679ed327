// Puts operations of every kind into a store, for the tests of the command line.
//
//     cli_fill_ledger URL            fills it; what is unknown can be resolved when it returns, but for `early`
//     cli_fill_ledger URL hold       owns it, says "owned", and ends with its standard input
//     cli_fill_ledger URL letters    puts dead letters and consumers into it
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "fill_letters.hpp"
#include "semel/committer.hpp"
#include "semel/postgres.hpp"
#include "semel/sqlite.hpp"

namespace semel {
namespace {

/// Ends the program with the failure's message.
template <class T>
T must(Result<T> result) {
    if (result) return std::move(*result);
    std::fprintf(stderr, "cli_fill_ledger: %s\n", result.failure().message.c_str());
    std::exit(1);
}

std::unique_ptr<Store> open(const std::string& url) {
    if (url.starts_with("sqlite:")) {
        sqlite::Options options;
        options.path = url.substr(7);
        return must(sqlite::open(std::move(options)));
    }
    postgres::Options options;
    options.uri = url;
    return must(postgres::open(std::move(options)));
}

Claim claim_of(const char* scope, const char* key) {
    Claim claim{.operation = {must(Scope::parse(scope)), must(Key::parse(key))},
                .fingerprint = {},
                .attempt = {},
                .policy = {},
                .key_time = {},
                .correlation = std::string("order-of-") + key};
    // A dead holder is noticed at once, so that no test has to wait.
    claim.policy.lease = std::chrono::milliseconds{100};
    claim.policy.effect_deadline = Duration{0};
    return claim;
}

class Filler {
public:
    explicit Filler(Committer& committer) : committer_(committer) {}

    Holder claimed(const Claim& claim) {
        const auto answer = must(committer_.claim(claim));
        const auto* mine = std::get_if<Claimed>(&answer);
        if (mine == nullptr) {
            std::fprintf(stderr, "cli_fill_ledger: %s was not claimed\n", claim.operation.text().c_str());
            std::exit(1);
        }
        return {claim.operation.id(), mine->token, mine->attempt};
    }
    void settled(const Claim& claim, Outcome outcome) { must(committer_.settle(claimed(claim), std::move(outcome))); }
    void unknown(const Claim& claim) { must(committer_.abandon(claimed(claim))); }

    void fill() {
        settled(claim_of("acme/payments", "settled"), {201, std::string("body\0bytes\n", 11), true});
        settled(claim_of("acme/payments", "a key with spaces"), {200, "", true});
        settled(claim_of("acme/payments", "tombstone"), Outcome::tombstone(500));
        settled(claim_of("acme/payments#2", "settled"), {202, "second generation", true});
        settled(claim_of("other/payments", "settled"), {203, "other tenant", true});
        settled(claim_of("events", "no-tenant"), {204, "x", true});

        Claim running = claim_of("acme/payments", "running");
        running.policy.lease = std::chrono::hours{1};
        claimed(running);

        Claim early = claim_of("acme/payments", "early");
        early.policy.effect_deadline = std::chrono::hours{1};
        unknown(early);
        for (const char* key : {"unknown-1", "unknown-2", "unknown-3"}) unknown(claim_of("acme/payments", key));
        const Claim steps = claim_of("acme/payments", "with-steps");
        const Holder holder = claimed(steps);
        must(committer_.save(holder, {"reserve", "12345"}));
        must(committer_.abandon(holder));

        // Due for the sweep as soon as they are settled.
        for (int i = 0; i < 5; ++i) {
            Claim due = claim_of("acme/due", ("due-" + std::to_string(i)).c_str());
            due.policy.retention.response = Duration{0};
            settled(due, {200, "gone", true});
        }
    }

private:
    Committer& committer_;
};

void hold() {
    std::puts("owned");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
}

void fill(Store& store) {
    const auto committer = must(Committer::start(store));
    Filler(*committer).fill();
    // Until the leases above are over by the store's own clock.
    const TimePoint from = later(must(store.now()), std::chrono::milliseconds{150});
    while (must(store.now()) < from) std::this_thread::yield();
}

}  // namespace
}  // namespace semel

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    if (argc > 2 && std::strcmp(argv[2], "letters") == 0) return semel::fill_letters(argv[1]);
    const auto store = semel::open(argv[1]);
    if (argc > 2 && std::strcmp(argv[2], "hold") == 0)
        semel::hold();
    else
        semel::fill(*store);
    return 0;
}
