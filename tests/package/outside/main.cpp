// A program outside of Semel, built against the installed package: one operation, asked for twice, on a SQLite store.
#include <semel/asio.hpp>
#include <semel/committer.hpp>
#include <semel/keys.hpp>
#include <semel/once.hpp>
#include <semel/postgres.hpp>
#include <semel/sqlite.hpp>

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>

namespace {

template <class T>
T must(semel::Result<T> result) {
    if (!result.ok()) {
        std::cerr << result.failure().message << '\n';
        std::exit(1);
    }
    return std::move(result).value();
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    const auto store = must(semel::sqlite::open({.path = argv[1]}));
    const auto committer = must(semel::Committer::start(*store));

    const semel::Operation operation{must(semel::Scope::make("acme", "payments")), semel::mint_uuid7()};
    int effects = 0;
    std::string answer;
    for (int request = 1; request <= 2; ++request) {
        semel::Claim command{.operation = operation, .fingerprint = {}, .attempt = {}, .policy = {}};
        const semel::ClaimAnswer claim = must(committer->claim(std::move(command)));
        if (const auto* claimed = std::get_if<semel::Claimed>(&claim)) {
            ++effects;
            must(committer->settle({operation.id(), claimed->token, claimed->attempt}, {201, "paid"}));
        } else if (const auto* replay = std::get_if<semel::Replay>(&claim)) {
            answer = replay->outcome.body;
        }
    }
    std::cout << operation.text() << ": " << effects << " effect, the retry got \"" << answer << "\"\n";
    return effects == 1 && answer == "paid" ? 0 : 1;
}
