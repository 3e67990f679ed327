// A program outside of Semel, built against the installed package.
#include <semel/keys.hpp>
#include <semel/ledger.hpp>
#include <semel/operation.hpp>
#include <semel/record.hpp>
#include <semel/result.hpp>
#include <semel/store.hpp>
#include <semel/time.hpp>

#include <iostream>

int main() {
    std::cout << "a failure is " << semel::name(semel::Code::invalid) << '\n';
    return semel::name(semel::Code::invalid) == "invalid" ? 0 : 1;
}
