// A program outside of Semel, built against the installed package: uses_client FOLDER URL has one intent done, and says what is
// known of it.
#include <semel/client.hpp>

#include <iostream>

int main(int argc, char** argv) {
    if (argc != 3) return 2;
    using namespace semel;
    auto client = client::Client::open({.retry = {.tries_max = 2}});
    const auto journal = client::file_journal(argv[1]);
    if (!client || !journal) return 2;
    const auto report = client->call({.url = argv[2], .body = "{}"}, "invoice-1", **journal);
    if (!report) {
        std::cerr << report.failure().message << '\n';
        return 2;
    }
    if (const auto* done = std::get_if<client::Succeeded>(&report->outcome))
        std::cout << "done: " << done->answer.status << '\n';
    else if (const auto* end = std::get_if<client::GaveUp>(&report->outcome))
        std::cout << (end->may_have_executed ? "may have been executed" : "not executed") << '\n';
    return 0;
}
