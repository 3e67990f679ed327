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

int say(std::string_view what) {
    std::cout << what << "\n";
    return 1;
}

int pay(semel::Committer& ledger, const semel::Operation& payment, std::string_view body) {
    auto answer = ledger.claim({.operation = payment, .fingerprint = semel::fingerprint_of_bytes(body)});
    if (!answer) return say(answer.failure().message);  // nothing was charged
    return std::visit(
        semel::match{[&](const semel::Claimed& mine) {  // ours, durably: charge, then settle
                         auto settled = ledger.settle({payment.id(), mine.token, mine.attempt}, charge_card());
                         return settled ? 0 : 1;
                     },
                     [](const semel::Replay& done) {  // charged before: this was the answer then
                         std::cout << done.outcome.status << " " << done.outcome.body << "\n";
                         return 0;
                     },
                     [](const semel::Busy&) { return say("another request is charging it"); },
                     [](const semel::Mismatch&) { return say("this key was used for another payment"); },
                     [](const semel::Unknown&) { return say("a crash hid the outcome: a person decides"); },
                     [](const semel::Expired&) { return say("this key is too old"); }},
        *answer);
}

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
