// A payment that is charged once, however often its request comes. Build it against an installed Semel, run it twice.
#include <semel/committer.hpp>
#include <semel/fingerprint.hpp>
#include <semel/sqlite.hpp>

#include <cstdlib>
#include <iostream>

namespace {

semel::Outcome charge_card() {
    std::cout << "charging the card\n";
    return {201, "paid 25 EUR"};
}

// [taste]
int pay(semel::Committer& ledger, const semel::Operation& payment, std::string_view body) {
    auto answer = ledger.claim({.operation = payment, .fingerprint = semel::fingerprint_of_bytes(body)});
    if (!answer) {
        std::cerr << answer.failure().message << "\n";  // nothing was charged
        return 1;
    }
    return std::visit(semel::match{
        [&](const semel::Claimed& mine) {  // ours, durably: charge, then settle
            auto settled = ledger.settle({payment.id(), mine.token, mine.attempt}, charge_card());
            return settled ? 0 : 1;
        },
        [](const semel::Replay& done) {    // charged before: this was the answer then
            std::cout << done.outcome.status << " " << done.outcome.body << "\n";
            return 0;
        },
        [](const semel::Busy&) { std::cout << "another request is charging it\n"; return 1; },
        [](const semel::Mismatch&) { std::cout << "this key was used for another payment\n"; return 1; },
        [](const semel::Unknown&) { std::cout << "a crash hid the outcome: a person decides\n"; return 1; },
        [](const semel::Expired&) { std::cout << "this key is too old\n"; return 1; }}, *answer);
}
// [taste]

}  // namespace

int main(int argc, char** argv) {
    const char* path = argc > 1 ? argv[1] : "first-taste.db";
    auto store = semel::sqlite::open({.path = path});
    if (!store) {
        std::cerr << store.failure().message << "\n";
        return 1;
    }
    auto ledger = semel::Committer::start(**store);
    auto scope = semel::Scope::parse("acme/payments");
    auto key = semel::Key::parse("order-17");
    if (!ledger || !scope || !key) return 1;
    return pay(**ledger, {*scope, *key}, R"({"amount": 25})");
}
