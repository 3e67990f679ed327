// verify_payments_api BEHAVIOUR EFFECTS_FILE: serves until its standard input ends. Prints its port; appends a line per
// effect to the file.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "verify/payments_api.hpp"

int main(int argc, char** argv) {
    const auto behaviour = argc == 3 ? semel::test::behaviour_of(argv[1]) : std::nullopt;
    if (!behaviour) {
        fmt::print(stderr, "usage: verify_payments_api BEHAVIOUR EFFECTS_FILE\n");
        return 2;
    }
    std::ofstream effects(argv[2], std::ios::app);
    const semel::test::PaymentsApi api(*behaviour, [&] { effects << "charge" << std::endl; });
    fmt::print("{}\n", api.port());
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
    return 0;
}
